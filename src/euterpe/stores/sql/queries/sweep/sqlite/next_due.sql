-- takes: nothing
-- returns: min_at, now
-- locks: none
-- When the next delayed or retrying job is due, or the next token of a key that jobs wait for; and what time it is.
SELECT MIN(due.at), {{now}}
FROM (
    SELECT MIN(run_at) AS at FROM inbox_jobs {{by inbox_jobs_due}} WHERE {{listed}} IN ('delayed', 'retrying')
    UNION ALL
    SELECT r.full_at - (r.burst - 1) * r.interval_us FROM euterpe_key_rates AS r
    WHERE r.full_at - (r.burst - 1) * r.interval_us > {{now}}
      AND EXISTS (SELECT 1 FROM inbox_jobs AS j INDEXED BY inbox_jobs_line WHERE j.line = r.name AND j.state || '' = 'scheduled')
) AS due
