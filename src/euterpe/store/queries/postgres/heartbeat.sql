-- Renew all leases of a worker in one statement, up to the deadline of each and the time to end after it. A late
-- heartbeat counts while the version is current.
UPDATE inbox_jobs AS j
SET lease_expires_at = LEAST({{now}} + LEAST(i.lease_ttl_us, j.visibility_us),
                             j.started_at + j.execution_timeout_us + {{overrun}}),
    heartbeat_at = {{now}}
FROM unnest(CAST(:id AS uuid[]), CAST(:claim_version AS bigint[]), CAST(:lease_ttl_us AS bigint[]))
    AS i (id, claim_version, lease_ttl_us)
WHERE j.id = i.id AND j.claim_version = i.claim_version AND j.lease_expires_at IS NOT NULL
  AND j.started_at + j.execution_timeout_us + {{overrun}} >= {{now}}
RETURNING CAST(j.id AS text), j.claim_version, j.lease_expires_at, j.cancel_version = j.claim_version
