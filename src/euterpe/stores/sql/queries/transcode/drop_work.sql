-- takes: job_id, work_key, done_at
-- returns: nothing
-- locks: waits
-- A result whose files are not there any more.
DELETE FROM euterpe_transcode_shared_work AS w
WHERE w.requester_id = (SELECT j.requester_id FROM inbox_jobs AS j WHERE j.id = :job_id) AND w.work_key = :work_key
    AND w.done_at = :done_at
