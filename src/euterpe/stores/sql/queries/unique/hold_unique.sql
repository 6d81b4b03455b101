-- takes: scope, key, job_id
-- returns: job_id
-- locks: waits
-- The job that has this unique key, ours if nobody has; the key is held until the end of this transaction.
INSERT INTO euterpe_unique_jobs AS u (scope, key, job_id) VALUES (:scope, :key, :job_id)
ON CONFLICT (scope, key) DO UPDATE SET job_id = u.job_id
RETURNING CAST(job_id AS TEXT)
