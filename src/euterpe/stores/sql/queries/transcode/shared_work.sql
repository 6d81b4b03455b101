-- takes: job_id, work_key
-- returns: job_id, done_at, result
-- locks: none
-- Who does this work for the requester of a job, and what came of it.
SELECT w.job_id, w.done_at, w.result FROM euterpe_transcode_shared_work AS w
WHERE w.requester_id = (SELECT j.requester_id FROM inbox_jobs AS j WHERE j.id = :job_id) AND w.work_key = :work_key
