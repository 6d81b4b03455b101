-- The running claim that a wire token speaks for.
SELECT {{job_columns}}, j.lease_token_hash FROM inbox_jobs AS j
WHERE j.id = :id AND j.lease_token_hash = :token_hash AND j.lease_expires_at IS NOT NULL
