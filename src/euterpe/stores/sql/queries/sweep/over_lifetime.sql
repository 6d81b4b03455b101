-- takes: limit
-- returns: job_columns
-- locks: none
-- Waiting jobs past their total lifetime; the condition is that of the index, word for word.
SELECT {{job_columns}} FROM inbox_jobs AS j {{by inbox_jobs_lifetime}}
WHERE j.completed_at IS NULL AND j.state <> 'running' AND j.expires_at <= {{now}}
LIMIT :limit {{skip_locked}}
