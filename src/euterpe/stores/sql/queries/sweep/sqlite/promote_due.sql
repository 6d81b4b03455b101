-- takes: limit
-- returns: queue, key
-- locks: waits
-- Delayed and retrying jobs whose time has come, unless their budget is spent. What is due is held when the update
-- comes to it, so its state needs no second look; with one, Postgres came by way of every waiting job.
WITH due AS MATERIALIZED (
    SELECT id FROM inbox_jobs {{by inbox_jobs_due}}
    WHERE state IN ('delayed', 'retrying') AND run_at <= {{now}} AND attempt_count < max_attempts
    ORDER BY run_at LIMIT :limit {{skip_locked}}
)
UPDATE inbox_jobs
SET state = 'scheduled', scheduled_at = {{now}}, updated_at = {{now}}, transitions = transitions + 1
WHERE id IN (SELECT id FROM due)
RETURNING queue, requester_id || char(31) || concurrency_key
