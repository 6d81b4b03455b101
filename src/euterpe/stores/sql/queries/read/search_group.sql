-- takes: max_bytes, fingerprint, before, down_to, states, requester_id, type, type_prefix, queue, created_after, created_before,
--     ended_after, ended_before, replayed, correlation_id, error, tags, limit
-- returns: listed_columns
-- locks: none
-- A page of the failures with one fingerprint, newest first. The state is in words that no other index knows.
-- What is large comes along until there is :max_bytes of it; behind that it is NULL, and has not been read.
SELECT {{listed_columns}}
FROM (
    SELECT f.id, SUM(f.bytes) OVER (ORDER BY f.seq DESC) - f.bytes AS bytes_before
    FROM (
        SELECT w.id, w.seq, length(w.payload) + COALESCE(length(w.result), 0) + COALESCE(length(w.checkpoint), 0) AS bytes
        FROM inbox_jobs AS w {{by inbox_jobs_failures}}
        WHERE w.fingerprint = :fingerprint AND w.seq < :before AND w.seq >= :down_to
          AND w.state || '' {{in states text}}
          AND {{search_filters}}
        ORDER BY w.seq DESC
        LIMIT :limit
    ) AS f
) AS l
JOIN inbox_jobs AS j ON j.id = l.id
ORDER BY j.seq DESC
