-- takes: after, orphan_us, limit
-- returns: job_id
-- locks: none
-- Jobs that ended, or were never stored, and still have something sealed.
SELECT c.job_id FROM euterpe_transcode_credentials AS c
WHERE c.storage_creds_encrypted IS NOT NULL AND c.job_id > :after
    AND (EXISTS (SELECT 1 FROM inbox_jobs AS j WHERE j.id = c.job_id
                 AND j.state IN ('completed', 'failed', 'dead_letter', 'cancelled'))
         OR (c.created_at < {{now}} - :orphan_us AND NOT EXISTS (SELECT 1 FROM inbox_jobs AS j WHERE j.id = c.job_id)))
ORDER BY c.job_id LIMIT :limit
