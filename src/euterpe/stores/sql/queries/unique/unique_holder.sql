-- takes: scope, key
-- returns: job_id
-- locks: skips
-- The job that was last submitted with this unique key; held, so that no other can take the key meanwhile. No row if a
-- submit holds it: that may be in a long transaction, for which a settle must not wait.
SELECT CAST(u.job_id AS TEXT) FROM euterpe_unique_jobs AS u WHERE u.scope = :scope AND u.key = :key {{skip_locked}}
