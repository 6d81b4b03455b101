-- takes: each lease_ttl_us, id, claim_version
-- returns: id, claim_version, lease_expires_at
-- locks: waits
-- Renew the lease of an event under delivery.
UPDATE job_outbox_events AS e SET lease_expires_at = {{now}} + :lease_ttl_us, heartbeat_at = {{now}}
WHERE e.id = :id AND e.claim_version = :claim_version AND e.lease_expires_at IS NOT NULL
RETURNING CAST(e.id AS TEXT), e.claim_version, e.lease_expires_at
