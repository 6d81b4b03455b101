-- takes: limit
-- returns: scope, key
-- locks: skips
-- Unique keys whose jobs have ended, held until the end of this transaction. What a submit or a retry holds is left to it.
SELECT u.scope, u.key FROM euterpe_unique_jobs AS u
WHERE NOT EXISTS (SELECT 1 FROM inbox_jobs AS j WHERE j.id = u.job_id AND j.completed_at IS NULL)
LIMIT :limit {{skip_locked}}
