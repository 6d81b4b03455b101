-- takes: fingerprint, requester_id
-- returns: type, error
-- locks: none
-- What the newest failure with this fingerprint says.
SELECT j.type, j.error FROM inbox_jobs AS j {{by inbox_jobs_failures}}
WHERE j.fingerprint = :fingerprint AND (CAST(:requester_id AS text) IS NULL OR j.requester_id = :requester_id)
ORDER BY j.seq DESC LIMIT 1
