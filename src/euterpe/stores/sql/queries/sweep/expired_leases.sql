-- takes: longest_us, limit
-- returns: job_columns
-- locks: none
-- Running jobs whose worker stopped renewing. The running set is small; no index on what heartbeats change.
-- Longer leases are left alone, and not locked: their living workers may not have had time to renew them.
SELECT {{job_columns}} FROM inbox_jobs AS j
WHERE {{is_running}} AND j.lease_expires_at < {{now}}
  AND j.lease_expires_at - COALESCE(j.heartbeat_at, j.lease_expires_at) <= :longest_us
ORDER BY j.seq LIMIT :limit {{skip_locked}}
