-- Renew leases by their wire tokens, which belong to one claim version as surely as the version itself.
-- Past the execution timeout there is nothing to renew: the sweep ends the attempt. Waits for nobody:
-- a row that somebody holds is left as it is and comes back with the lease that it has.
WITH input AS MATERIALIZED (
    SELECT * FROM unnest(CAST(:id AS uuid[]), CAST(:token_hash AS bytea[]), CAST(:claim_version AS bigint[]),
                         CAST(:lease_ttl_us AS bigint[])) AS i (id, token_hash, claim_version, lease_ttl_us)
), free AS MATERIALIZED (
    SELECT w.id, i.token_hash, i.lease_ttl_us
    FROM input AS i JOIN inbox_jobs AS w ON w.id = i.id
    WHERE w.lease_token_hash = i.token_hash AND w.lease_expires_at IS NOT NULL
      AND w.started_at + w.execution_timeout_us >= {{now}}
      AND w.claim_version = COALESCE(i.claim_version, w.claim_version)
    FOR NO KEY UPDATE OF w SKIP LOCKED
), renewed AS (
    UPDATE inbox_jobs AS j
    SET lease_expires_at = LEAST({{now}} + LEAST(free.lease_ttl_us, j.visibility_us),
                                 j.started_at + j.execution_timeout_us),
        heartbeat_at = {{now}}
    FROM free
    WHERE j.id = free.id AND j.lease_token_hash = free.token_hash AND j.lease_expires_at IS NOT NULL
    RETURNING j.id, j.claim_version, j.lease_expires_at, j.cancel_version, j.lease_token_hash
)
SELECT CAST(j.id AS text), j.claim_version, j.lease_expires_at, j.cancel_version = j.claim_version, j.lease_token_hash
FROM renewed AS j
UNION ALL
SELECT CAST(j.id AS text), j.claim_version, j.lease_expires_at, j.cancel_version = j.claim_version, j.lease_token_hash
FROM input AS i JOIN inbox_jobs AS j ON j.id = i.id
WHERE j.lease_token_hash = i.token_hash AND j.lease_expires_at IS NOT NULL
  AND j.started_at + j.execution_timeout_us >= {{now}}
  AND j.claim_version = COALESCE(i.claim_version, j.claim_version)
  AND NOT EXISTS (SELECT 1 FROM renewed AS r WHERE r.id = i.id)
