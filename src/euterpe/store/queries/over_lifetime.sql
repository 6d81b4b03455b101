-- Live jobs past their total lifetime: waiting ones by index, running ones among the few that run.
SELECT {{job_columns}} FROM inbox_jobs AS j {{by inbox_jobs_lifetime}}
WHERE (j.state IN ('pending', 'scheduled', 'delayed', 'retrying') AND j.expires_at <= {{now}})
LIMIT :limit {{skip_locked}}
