-- takes: nothing
-- returns: min_at, now
-- locks: none
-- When the next delayed or retrying job is due, or the next token of a key that jobs wait for; and what time it is.
SELECT MIN(due.at), {{now}}
FROM (
    SELECT MIN(run_at) AS at FROM inbox_jobs {{by inbox_jobs_due}} WHERE {{listed}} IN ('delayed', 'retrying')
    UNION ALL
    SELECT MIN(due_at) FROM euterpe_keys WHERE due_at > {{now}}
) AS due
