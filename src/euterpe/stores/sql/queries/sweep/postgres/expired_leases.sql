-- takes: longest_us, limit
-- returns: job_columns
-- locks: skips
-- Running jobs whose worker stopped renewing, of the claims whose first lease is over. `refresh_running` has moved on those whose jobs
-- were renewed. Longer leases are left alone, and not locked: their living workers may not have had time to renew them.
SELECT {{job_columns}} FROM inbox_jobs AS j
WHERE j.seq = ANY (ARRAY(
        SELECT n.seq FROM (SELECT r.seqs FROM euterpe_running AS r WHERE r.expires_at < {{now}} ORDER BY r.expires_at LIMIT 1000) AS r,
                          unnest(r.seqs) AS n (seq)))
  AND j.lease_expires_at < {{now}}
  AND j.lease_expires_at - COALESCE(j.heartbeat_at, j.lease_expires_at) <= :longest_us
ORDER BY j.seq LIMIT :limit {{skip_locked}}
