-- takes: each scope, key
-- returns: found
-- locks: waits
-- A unique key that is held and has no living job. Between the look and the lock another job may have taken it, or its
-- own was retried: only a statement behind the lock sees that.
DELETE FROM euterpe_unique_jobs AS u
WHERE u.scope = :scope AND u.key = :key
  AND NOT EXISTS (SELECT 1 FROM inbox_jobs AS j WHERE j.id = u.job_id AND j.completed_at IS NULL)
RETURNING 1
