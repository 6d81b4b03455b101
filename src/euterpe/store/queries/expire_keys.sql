-- Keys whose window is over and whose job ended at least a window ago (or is gone).
DELETE FROM idempotency_keys
WHERE (scope, key) IN (
    SELECT k.scope, k.key FROM idempotency_keys AS k
    WHERE k.expires_at <= {{now}}
      AND NOT EXISTS (SELECT 1 FROM inbox_jobs AS j
                      WHERE j.id = k.job_id
                        AND (j.completed_at IS NULL OR j.completed_at + :window_us > {{now}}))
    ORDER BY k.expires_at
    LIMIT :limit)
RETURNING 1
