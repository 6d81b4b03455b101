-- takes: each scope, key, request_hash, job_id, window_us
-- returns: scope, key
-- locks: waits
-- Take an idempotency key that is free: its window (`expires_at - created_at`) is over, counted from the end (or the pruning)
-- of its job, of a batch the last of them.
-- No row back: somebody has it. `expire_keys` frees exactly the same keys.
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
                         OR j.completed_at + (k.expires_at - k.created_at) > excluded.created_at))
  AND (k.response IS NULL
       OR NOT EXISTS (SELECT 1 FROM euterpe_tombstones AS t
                      WHERE t.job_id = k.job_id AND t.pruned_at + (k.expires_at - k.created_at) > excluded.created_at))
  AND NOT EXISTS (
{{batch_lives}}
  )
RETURNING scope, key
