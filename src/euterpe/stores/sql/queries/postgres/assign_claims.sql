-- Give claims to the HTTP workers that waited for them: their names and wire tokens (stored hashed). Nobody
-- on this side can stop their handlers, so the execution timeout itself bounds their leases.
UPDATE inbox_jobs AS j SET worker_id = i.worker_id, lease_token_hash = i.token_hash,
    lease_expires_at = LEAST(j.lease_expires_at, j.started_at + j.execution_timeout_us)
FROM unnest(CAST(:id AS uuid[]), CAST(:claim_version AS bigint[]), CAST(:worker_id AS text[]),
            CAST(:token_hash AS bytea[])) AS i (id, claim_version, worker_id, token_hash)
WHERE j.id = i.id AND j.claim_version = i.claim_version AND j.lease_expires_at IS NOT NULL
