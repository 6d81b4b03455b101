-- takes: job_id, claim_version
-- returns: found
-- locks: none
-- The fence of an output: one row while this claim owns the job.
SELECT 1 FROM inbox_jobs AS j
WHERE j.id = :job_id AND j.claim_version = :claim_version AND j.lease_expires_at IS NOT NULL
