-- Take up to :limit scheduled jobs of one queue, most urgent first, oldest first inside a priority; behind those, up to :prefetch
-- more that can wait for a moment, up to the first that cannot.
-- MATERIALIZED keeps the planner from running the locking select more than once.
WITH picked AS MATERIALIZED (
    SELECT w.id, w.priority, w.seq, {{prefetchable}} AS can_wait
    FROM inbox_jobs AS w
    WHERE {{claimable}}
      AND (CAST(:types AS text[]) IS NULL OR type = ANY (CAST(:types AS text[])))
    ORDER BY priority, seq
    LIMIT CAST(:limit AS integer) + CAST(:prefetch AS integer)
    FOR UPDATE OF w SKIP LOCKED
), placed AS MATERIALIZED (
    SELECT id, can_wait, row_number() OVER (ORDER BY priority, seq) AS place FROM picked
)
UPDATE inbox_jobs AS j
SET {{claimed}},
    lease_expires_at = {{now}} + LEAST(:lease_ttl_us, j.visibility_us, j.execution_timeout_us + {{overrun}}),
    worker_id = :worker_id, lease_token_hash = NULL
FROM placed
WHERE j.id = placed.id
  AND (placed.place >= (SELECT MIN(place) FROM placed WHERE place > :limit AND NOT can_wait)) IS NOT TRUE
RETURNING {{job_columns}}
