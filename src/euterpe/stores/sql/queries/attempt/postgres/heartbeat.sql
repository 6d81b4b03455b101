-- takes: rows of id, claim_version, lease_ttl_us, overrun_us
-- returns: id, claim_version, lease_expires_at, cancel_asked, true
-- locks: skips
-- Renew all leases of a worker in one statement that waits for nobody, up to the deadline of each and the time to end
-- after it. A late heartbeat counts while the version is current.
-- A row that somebody holds is left as it is and comes back with the lease that it has, renewed false.
WITH input AS MATERIALIZED (
    SELECT * FROM unnest(CAST(:id AS uuid[]), CAST(:claim_version AS bigint[]), CAST(:lease_ttl_us AS bigint[]),
                         CAST(:overrun_us AS bigint[]))
        AS i (id, claim_version, lease_ttl_us, overrun_us)
), free AS MATERIALIZED (
    SELECT w.id, i.claim_version, i.lease_ttl_us, i.overrun_us
    FROM input AS i JOIN inbox_jobs AS w ON w.id = i.id
    WHERE w.claim_version = i.claim_version AND w.lease_expires_at IS NOT NULL
      AND w.started_at + w.execution_timeout_us + i.overrun_us >= {{now}}
    FOR NO KEY UPDATE OF w SKIP LOCKED
), renewed AS (
    UPDATE inbox_jobs AS j
    SET lease_expires_at = LEAST({{now}} + LEAST(free.lease_ttl_us, j.visibility_us),
                                 j.started_at + j.execution_timeout_us + free.overrun_us),
        heartbeat_at = {{now}}
    FROM free
    WHERE j.id = free.id AND j.claim_version = free.claim_version AND j.lease_expires_at IS NOT NULL
    RETURNING j.id, j.claim_version, j.lease_expires_at, j.cancel_version
)
SELECT CAST(j.id AS text), j.claim_version, j.lease_expires_at, j.cancel_version = j.claim_version, true
FROM renewed AS j
UNION ALL
SELECT CAST(j.id AS text), j.claim_version, j.lease_expires_at, j.cancel_version = j.claim_version, false
FROM input AS i JOIN inbox_jobs AS j ON j.id = i.id
WHERE j.claim_version = i.claim_version AND j.lease_expires_at IS NOT NULL
  AND j.started_at + j.execution_timeout_us + i.overrun_us >= {{now}}
  AND NOT EXISTS (SELECT 1 FROM renewed AS r WHERE r.id = i.id)
