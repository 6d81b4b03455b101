-- The running claim that a wire token speaks for, and whether its deadline is over.
SELECT {{job_columns}}, j.lease_token_hash, j.started_at + j.execution_timeout_us < {{now}} FROM inbox_jobs AS j
WHERE j.id = :id AND j.lease_token_hash = :token_hash AND j.lease_expires_at IS NOT NULL
