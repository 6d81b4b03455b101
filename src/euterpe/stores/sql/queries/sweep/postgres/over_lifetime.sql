-- takes: limit
-- returns: job_columns
-- locks: skips
-- Jobs in lists by state that are past their total lifetime. `line_page` and `key_line_page` find those that are ready.
SELECT {{job_columns}} FROM inbox_jobs AS j
WHERE '' || j.listed IN ('pending', 'delayed', 'retrying') AND j.expires_at <= {{now}} AND j.completed_at IS NULL
ORDER BY j.expires_at LIMIT :limit {{skip_locked}}
