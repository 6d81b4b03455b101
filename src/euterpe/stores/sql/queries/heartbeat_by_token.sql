-- Renew a lease by its wire token, which belongs to one claim version as surely as the version itself.
-- Past the execution timeout there is nothing to renew: the sweep ends the attempt.
UPDATE inbox_jobs AS j
SET lease_expires_at = MIN({{now}} + MIN(:lease_ttl_us, j.visibility_us), j.started_at + j.execution_timeout_us),
    heartbeat_at = {{now}}
WHERE j.id = :id AND j.lease_token_hash = :token_hash AND j.lease_expires_at IS NOT NULL
  AND j.started_at + j.execution_timeout_us >= {{now}}
  AND j.claim_version = COALESCE(:claim_version, j.claim_version)
RETURNING CAST(j.id AS TEXT), j.claim_version, j.lease_expires_at, j.cancel_version = j.claim_version, j.lease_token_hash
