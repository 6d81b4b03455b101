-- takes: fingerprint, requester_id, counted
-- returns: count, min_failed_at, max_failed_at
-- locks: none
-- How many failures have this fingerprint, up to a limit, and when the first and the last of these was.
SELECT COUNT(*), MIN(f.failed_at), MAX(f.failed_at)
FROM (SELECT j.requester_id, j.failed_at FROM inbox_jobs AS j {{by inbox_jobs_failures}}
      WHERE j.fingerprint = :fingerprint AND (CAST(:requester_id AS text) IS NULL OR j.requester_id = :requester_id)
      ORDER BY j.seq DESC LIMIT :counted) AS f
