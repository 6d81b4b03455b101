-- Renew leases by their wire tokens, which belong to one claim version as surely as the version itself.
-- Past the execution timeout there is nothing to renew: the sweep ends the attempt.
UPDATE inbox_jobs AS j
SET lease_expires_at = LEAST({{now}} + LEAST(i.lease_ttl_us, j.visibility_us), j.started_at + j.execution_timeout_us),
    heartbeat_at = {{now}}
FROM unnest(CAST(:id AS uuid[]), CAST(:token_hash AS bytea[]), CAST(:claim_version AS bigint[]),
            CAST(:lease_ttl_us AS bigint[])) AS i (id, token_hash, claim_version, lease_ttl_us)
WHERE j.id = i.id AND j.lease_token_hash = i.token_hash AND j.lease_expires_at IS NOT NULL
  AND j.started_at + j.execution_timeout_us >= {{now}}
  AND j.claim_version = COALESCE(i.claim_version, j.claim_version)
RETURNING CAST(j.id AS text), j.claim_version, j.lease_expires_at, j.cancel_version = j.claim_version, j.lease_token_hash
