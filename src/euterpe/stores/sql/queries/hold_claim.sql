-- The claim a running job spawns under, held so that it cannot end meanwhile.
SELECT {{job_columns}} FROM inbox_jobs AS j
WHERE j.id = :id AND j.claim_version = :claim_version AND j.lease_expires_at IS NOT NULL
{{lock j}}
