-- Take an idempotency key: free, or expired together with its job's life. No row back: somebody has it.
-- One without an answer and without its job was left by a submit that was cut off in a caller's transaction.
INSERT INTO idempotency_keys AS k (scope, key, request_hash, job_id, created_at, expires_at)
VALUES (:scope, :key, :request_hash, :job_id, {{now}}, {{now}} + :window_us)
ON CONFLICT (scope, key) DO UPDATE
SET request_hash = excluded.request_hash, job_id = excluded.job_id, response = NULL,
    created_at = excluded.created_at, expires_at = excluded.expires_at
WHERE (k.expires_at <= excluded.created_at OR k.response IS NULL)
  AND NOT EXISTS (SELECT 1 FROM inbox_jobs AS j
                  WHERE j.id = k.job_id
                    AND (k.response IS NULL OR j.completed_at IS NULL
                         OR j.completed_at + :window_us > excluded.created_at))
RETURNING scope, key
