-- takes: job_id, scope, key
-- returns: nothing
-- locks: waits
-- The job that had this key keeps nobody away any more.
UPDATE euterpe_unique_jobs SET job_id = :job_id WHERE scope = :scope AND key = :key
