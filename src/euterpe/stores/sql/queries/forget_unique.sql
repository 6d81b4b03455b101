-- Unique keys whose jobs have ended. What a submit holds is left to it.
WITH over AS MATERIALIZED (
    SELECT u.scope, u.key FROM euterpe_unique_jobs AS u
    WHERE NOT EXISTS (SELECT 1 FROM inbox_jobs AS j WHERE j.id = u.job_id AND j.completed_at IS NULL)
    LIMIT :limit {{skip_locked}}
)
DELETE FROM euterpe_unique_jobs WHERE (scope, key) IN (SELECT scope, key FROM over)
RETURNING 1
