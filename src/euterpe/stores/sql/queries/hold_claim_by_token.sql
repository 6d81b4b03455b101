-- The claim an HTTP worker's job spawns under, held so that it cannot end meanwhile: fenced by version, token and deadline.
SELECT {{job_columns}} FROM inbox_jobs AS j
WHERE j.id = :id AND j.claim_version = :claim_version AND j.lease_token_hash = :token_hash
  AND j.lease_expires_at IS NOT NULL AND j.started_at + j.execution_timeout_us >= {{now}}
{{lock j}}
