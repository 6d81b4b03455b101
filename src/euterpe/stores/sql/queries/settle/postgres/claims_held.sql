-- takes: rows of id, claim_version, in_time
-- returns: id, claim_version
-- locks: none
-- Which of these claims still own their jobs, as far as is committed. Locks nothing.
SELECT CAST(j.id AS text), j.claim_version
FROM unnest(CAST(:id AS uuid[]), CAST(:claim_version AS bigint[]), CAST(:in_time AS boolean[]))
    AS i (id, claim_version, in_time)
JOIN inbox_jobs AS j ON j.id = i.id
WHERE j.claim_version = i.claim_version AND j.lease_expires_at IS NOT NULL
  AND (NOT i.in_time OR j.started_at + j.execution_timeout_us >= {{now}})
