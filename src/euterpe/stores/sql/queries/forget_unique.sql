-- Unique keys whose jobs have ended. What a submit holds is left to it, and so is what one has taken since the look:
-- under the lock a key must still be that of the job that was seen to be over. Whether the new job lives could not be
-- told there, since this statement does not see it.
WITH seen AS MATERIALIZED (
    SELECT u.scope, u.key, u.job_id FROM euterpe_unique_jobs AS u
    WHERE NOT EXISTS (SELECT 1 FROM inbox_jobs AS j WHERE j.id = u.job_id AND j.completed_at IS NULL)
    LIMIT :limit
), over AS MATERIALIZED (
    SELECT u.scope, u.key FROM euterpe_unique_jobs AS u
    WHERE (u.scope, u.key, u.job_id) IN (SELECT scope, key, job_id FROM seen)
    {{skip_locked}}
)
DELETE FROM euterpe_unique_jobs WHERE (scope, key) IN (SELECT scope, key FROM over)
RETURNING 1
