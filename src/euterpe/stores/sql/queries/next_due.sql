-- When the next delayed or retrying job is due, and what time it is now.
SELECT MIN(run_at), {{now}} FROM inbox_jobs {{by inbox_jobs_due}} WHERE state IN ('delayed', 'retrying')
