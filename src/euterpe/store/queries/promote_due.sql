-- Delayed and retrying jobs whose time has come, unless their budget is spent.
WITH due AS MATERIALIZED (
    SELECT id FROM inbox_jobs
    WHERE state IN ('delayed', 'retrying') AND run_at <= {{now}} AND attempt_count < max_attempts
    ORDER BY run_at LIMIT :limit {{skip_locked}}
)
UPDATE inbox_jobs
SET state = 'scheduled', scheduled_at = {{now}}, updated_at = {{now}}, transitions = transitions + 1
WHERE id IN (SELECT id FROM due) AND state IN ('delayed', 'retrying')
RETURNING queue
