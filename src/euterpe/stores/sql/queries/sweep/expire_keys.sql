-- takes: limit
-- returns: found
-- locks: skips
-- Keys that `insert_key` would give away: their window is over, counted from the end (or the pruning) of their job, of a
-- batch the last of them. `expires_at` counts it from the submission, which is the soonest that it can be over. The conditions hold on the row that is locked: one that a submit has just renewed is not over any more.
WITH expired AS MATERIALIZED (
    SELECT k.scope, k.key FROM idempotency_keys AS k
    WHERE k.expires_at <= {{now}}
      AND NOT EXISTS (SELECT 1 FROM inbox_jobs AS j
                      WHERE j.id = k.job_id
                        AND (j.completed_at IS NULL OR j.completed_at + (k.expires_at - k.created_at) > {{now}}))
      AND NOT EXISTS (SELECT 1 FROM euterpe_tombstones AS t
                      WHERE t.job_id = k.job_id AND t.pruned_at + (k.expires_at - k.created_at) > {{now}})
      AND NOT EXISTS (
{{batch_lives}}
      )
    ORDER BY k.expires_at
    LIMIT :limit {{skip_locked}}
)
DELETE FROM idempotency_keys
WHERE (scope, key) IN (SELECT scope, key FROM expired)
RETURNING 1
