-- takes: limit
-- returns: job_columns
-- locks: skips
-- Running jobs past their total lifetime.
SELECT {{job_columns}} FROM inbox_jobs AS j
WHERE {{is_running}} AND j.expires_at <= {{now}}
ORDER BY j.seq LIMIT :limit {{skip_locked}}
