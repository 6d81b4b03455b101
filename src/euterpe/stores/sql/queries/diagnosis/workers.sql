-- Who holds a job now.
SELECT COUNT(DISTINCT j.worker_id) FROM inbox_jobs AS j WHERE j.{{indexed_state}} = 'running' AND j.lease_expires_at >= {{now}}
