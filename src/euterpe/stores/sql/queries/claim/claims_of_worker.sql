-- takes: worker_id
-- returns: job_columns
-- locks: skips
-- What a worker holds, as far as its leases are not over. The running set is small.
SELECT {{job_columns}} FROM inbox_jobs AS j
WHERE {{is_running}} AND j.worker_id = :worker_id AND j.lease_expires_at > {{now}}
ORDER BY j.seq {{skip_locked}}
