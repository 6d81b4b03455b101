-- Which of these jobs run under one of these tokens.
SELECT {{job_columns}} FROM inbox_jobs AS j
WHERE j.id {{in ids uuid}} AND j.lease_token_hash {{in token_hashes bytea}} AND j.lease_expires_at IS NOT NULL
