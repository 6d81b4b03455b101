-- Give a claim to the HTTP worker that waited for it: its name and its wire token (stored hashed).
UPDATE inbox_jobs AS j SET worker_id = :worker_id, lease_token_hash = :token_hash
WHERE j.id = :id AND j.claim_version = :claim_version AND j.lease_expires_at IS NOT NULL
