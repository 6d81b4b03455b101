-- takes: fingerprint, requester_id
-- returns: failed_at
-- locks: none
-- When the oldest job of a group failed, where the group is too large to look at all of it.
SELECT j.failed_at FROM inbox_jobs AS j {{by inbox_jobs_failures}}
WHERE j.fingerprint = :fingerprint AND (CAST(:requester_id AS text) IS NULL OR j.requester_id = :requester_id)
ORDER BY j.seq LIMIT 1
