-- takes: limit
-- returns: queue, limit_key
-- locks: skips
-- Delayed and retrying jobs whose time has come, unless their budget is spent, enter the line.
WITH due AS MATERIALIZED (
    SELECT seq FROM inbox_jobs
    WHERE listed IN ('delayed', 'retrying') AND run_at <= {{now}} AND attempt_count < max_attempts
    ORDER BY run_at LIMIT :limit FOR UPDATE SKIP LOCKED
), entering AS (
    UPDATE inbox_jobs AS j
    SET state = 'scheduled', listed = NULL, scheduled_at = {{now}}, updated_at = {{now}}, transitions = j.transitions + 1
    WHERE j.seq = ANY (ARRAY(SELECT d.seq FROM due AS d))
    RETURNING {{entering_columns}}
), {{enter}}
SELECT j.queue, {{limit_key}} FROM entering AS j
