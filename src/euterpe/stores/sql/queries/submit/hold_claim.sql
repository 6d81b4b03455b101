-- takes: id, claim_version, in_time
-- returns: job_columns
-- locks: waits
-- The claim a running job spawns under, held so that it cannot end meanwhile. That of an HTTP worker (:in_time) is over with its deadline.
SELECT {{job_columns}} FROM inbox_jobs AS j
WHERE j.id = :id AND j.claim_version = :claim_version AND j.lease_expires_at IS NOT NULL
  AND (NOT CAST(:in_time AS BOOLEAN) OR j.started_at + j.execution_timeout_us >= {{now}})
{{lock j}}
