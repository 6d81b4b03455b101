-- Waiting jobs past their total lifetime; the condition is that of the index, word for word.
SELECT {{job_columns}} FROM inbox_jobs AS j
WHERE j.indexed_state || '' IN ('pending', 'scheduled', 'delayed', 'retrying') AND j.expires_at <= {{now}}
LIMIT :limit {{skip_locked}}
