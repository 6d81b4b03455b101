-- takes: job_id
-- returns: job_id
-- locks: waits
-- The last trace of a pruned job's credentials.
DELETE FROM euterpe_transcode_credentials AS c
WHERE c.job_id = :job_id AND NOT EXISTS (SELECT 1 FROM inbox_jobs AS j WHERE j.id = c.job_id)
RETURNING c.job_id
