-- takes: max_bytes, states, before, down_to, requester_id, type, type_prefix, queue, created_after, created_before, ended_after,
--     ended_before, replayed, correlation_id, error, tags, limit
-- returns: listed_columns
-- locks: none
-- Newest first. What is large comes along until there is :max_bytes of it; behind that it is NULL, and has not been read.
SELECT {{listed_columns}}
FROM (
    SELECT f.seq, SUM(f.bytes) OVER (ORDER BY f.seq DESC) - f.bytes AS bytes_before
    FROM (
        {{found}}
    ) AS f
) AS l
JOIN inbox_jobs AS j ON j.seq = l.seq
ORDER BY l.seq DESC
