-- takes: limit
-- returns: job_columns
-- locks: skips
-- Due retries without budget.
SELECT {{job_columns}} FROM inbox_jobs AS j {{by inbox_jobs_due}}
WHERE j.{{listed}} IN ('delayed', 'retrying') AND j.run_at <= {{now}} AND j.attempt_count >= j.max_attempts
ORDER BY j.run_at LIMIT :limit {{skip_locked}}
