-- Renew a lease. A late heartbeat counts while the version is current.
UPDATE inbox_jobs AS j
SET lease_expires_at = {{now}} + MIN(:lease_ttl_us, j.visibility_us), heartbeat_at = {{now}}
WHERE j.id = :id AND j.claim_version = :claim_version AND j.lease_expires_at IS NOT NULL
RETURNING CAST(j.id AS TEXT), j.claim_version, j.lease_expires_at, j.cancel_version = j.claim_version
