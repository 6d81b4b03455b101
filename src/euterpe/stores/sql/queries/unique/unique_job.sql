-- takes: scope, key
-- returns: job_id
-- locks: none
-- The job that has this unique key.
SELECT CAST(u.job_id AS TEXT) FROM euterpe_unique_jobs AS u WHERE u.scope = :scope AND u.key = :key
