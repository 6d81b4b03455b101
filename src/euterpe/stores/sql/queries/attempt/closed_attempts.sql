-- takes: id
-- returns: job_id, claim_version, attempt, worker_id, started_at, ended_at, outcome, error
-- locks: none
-- The closed attempts of a job, first to last.
SELECT CAST(job_id AS TEXT), claim_version, attempt, worker_id, started_at, ended_at, outcome, error
FROM job_attempts WHERE job_id = :id ORDER BY claim_version
