-- Running jobs past their total lifetime.
SELECT {{job_columns}} FROM inbox_jobs AS j
WHERE j.{{indexed_state}} = 'running' AND j.expires_at <= {{now}}
ORDER BY j.seq LIMIT :limit {{skip_locked}}
