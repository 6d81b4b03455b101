-- takes: after, orphan_us, limit
-- returns: job_id
-- locks: none
-- What is left of jobs that retention removed, or that were never stored.
SELECT c.job_id FROM euterpe_transcode_credentials AS c
WHERE c.job_id > :after AND c.created_at < {{now}} - :orphan_us
    AND NOT EXISTS (SELECT 1 FROM inbox_jobs AS j WHERE j.id = c.job_id)
ORDER BY c.job_id LIMIT :limit
