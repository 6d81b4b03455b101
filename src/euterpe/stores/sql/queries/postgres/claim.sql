-- Take up to :limit scheduled jobs of one queue, most urgent first, oldest first inside a priority.
-- MATERIALIZED keeps the planner from running the locking select more than once.
WITH picked AS MATERIALIZED (
    SELECT w.id
    FROM inbox_jobs AS w
    WHERE {{claimable}}
      AND (CAST(:types AS text[]) IS NULL OR type = ANY (CAST(:types AS text[])))
    ORDER BY priority, seq
    LIMIT :limit
    FOR UPDATE OF w SKIP LOCKED
)
UPDATE inbox_jobs AS j
SET {{claimed}},
    lease_expires_at = {{now}} + LEAST(:lease_ttl_us, j.visibility_us, j.execution_timeout_us + {{overrun}}),
    worker_id = :worker_id, lease_token_hash = NULL
FROM picked
WHERE j.id = picked.id
RETURNING {{job_columns}}
