-- takes: job_id
-- returns: nothing
-- locks: waits
-- Uploads of a job that is gone: nothing can abort them any more but the bucket's own lifecycle rule.
DELETE FROM euterpe_transcode_uploads AS u
WHERE u.job_id = :job_id AND NOT EXISTS (SELECT 1 FROM inbox_jobs AS j WHERE j.id = u.job_id)
