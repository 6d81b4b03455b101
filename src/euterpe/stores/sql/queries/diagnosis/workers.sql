-- takes: nothing
-- returns: count_worker_id
-- locks: none
-- Who holds a job now.
SELECT COUNT(DISTINCT j.worker_id) FROM inbox_jobs AS j WHERE {{is_running}} AND j.lease_expires_at >= {{now}}
