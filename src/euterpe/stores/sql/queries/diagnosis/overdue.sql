-- Delayed and retrying jobs that were due a while ago, and nobody scheduled them.
SELECT COUNT(*), MIN(f.run_at), {{now}}
FROM (SELECT j.run_at FROM inbox_jobs AS j {{by inbox_jobs_due}}
      WHERE j.{{indexed_state}} IN ('delayed', 'retrying') AND j.run_at < {{now}} - :late_us ORDER BY j.run_at LIMIT :limit) AS f
