-- Which of these claims still own their jobs, as far as is committed. Locks nothing.
SELECT CAST(j.id AS text), j.claim_version
FROM unnest(CAST(:id AS uuid[]), CAST(:claim_version AS bigint[])) AS i (id, claim_version)
JOIN {{jobs_now}} AS j ON j.id = i.id
WHERE j.claim_version = i.claim_version AND j.lease_expires_at IS NOT NULL
