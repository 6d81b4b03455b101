-- takes: result, job_id, work_key, claim_version
-- returns: nothing
-- locks: waits
-- What came of shared work, told by the claim that did it.
UPDATE euterpe_transcode_shared_work AS w SET result = :result, done_at = {{now}}
WHERE w.requester_id = (SELECT j.requester_id FROM inbox_jobs AS j WHERE j.id = :job_id) AND w.work_key = :work_key
    AND w.job_id = :job_id AND w.claim_version = :claim_version AND w.result IS NULL
