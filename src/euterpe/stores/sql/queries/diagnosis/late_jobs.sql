-- takes: late_us, limit
-- returns: count, min_run_at, now
-- locks: none
-- Delayed and retrying jobs that were due a while ago, and nobody scheduled them.
SELECT COUNT(*), MIN(f.run_at), {{now}}
FROM (SELECT j.run_at FROM inbox_jobs AS j {{by inbox_jobs_due}}
      WHERE j.{{listed}} IN ('delayed', 'retrying') AND j.run_at < {{now}} - :late_us ORDER BY j.run_at LIMIT :limit) AS f
