-- Running jobs whose worker stopped renewing. The running set is small; no index on what heartbeats change.
SELECT {{job_columns}} FROM inbox_jobs AS j
WHERE j.{{indexed_state}} = 'running' AND j.lease_expires_at < {{now}}
ORDER BY j.seq LIMIT :limit {{skip_locked}}
