-- takes: fingerprint, before, down_to, states, requester_id, type, type_prefix, queue, created_after, created_before, ended_after,
--     ended_before, replayed, correlation_id, error, tags, limit
-- returns: seq, id, bytes
-- locks: none
-- As `matching`, of the failures with one fingerprint. The state is in words that no other index knows.
SELECT w.seq, CAST(w.id AS TEXT),
       length(w.payload) + COALESCE(length(w.result), 0) + COALESCE(length(w.checkpoint), 0) AS bytes
FROM inbox_jobs AS w {{by inbox_jobs_failures}}
WHERE w.fingerprint = :fingerprint AND w.seq < :before AND w.seq >= :down_to
  AND w.state || '' {{in states text}}
  AND {{search_filters}}
ORDER BY w.seq DESC
LIMIT :limit
