-- Give a claim to the HTTP worker that waited for it: its name and its wire token (stored hashed). Nobody on this side
-- can stop its handler, so the execution timeout itself bounds its lease.
UPDATE inbox_jobs AS j SET worker_id = :worker_id, lease_token_hash = :token_hash,
    lease_expires_at = MIN(j.lease_expires_at, j.started_at + j.execution_timeout_us)
WHERE j.id = :id AND j.claim_version = :claim_version AND j.lease_expires_at IS NOT NULL
