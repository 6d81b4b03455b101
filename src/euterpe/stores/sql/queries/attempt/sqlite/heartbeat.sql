-- takes: each lease_ttl_us, overrun_us, id, claim_version
-- returns: id, claim_version, lease_expires_at, cancel_asked, renewed
-- locks: waits
-- Renew a lease, up to its deadline and the time to end after it. A late heartbeat counts while the version is current.
UPDATE inbox_jobs AS j
SET lease_expires_at = MIN({{now}} + MIN(:lease_ttl_us, j.visibility_us),
                           j.started_at + j.execution_timeout_us + :overrun_us),
    heartbeat_at = {{now}}
WHERE j.id = :id AND j.claim_version = :claim_version AND j.lease_expires_at IS NOT NULL
  AND j.started_at + j.execution_timeout_us + :overrun_us >= {{now}}
RETURNING CAST(j.id AS TEXT), j.claim_version, j.lease_expires_at, j.cancel_version = j.claim_version, TRUE
