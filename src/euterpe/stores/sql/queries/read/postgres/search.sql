-- takes: max_bytes, states, before, down_to, requester_id, type, type_prefix, queue, created_after, created_before, ended_after,
--     ended_before, replayed, correlation_id, error, tags, limit
-- returns: listed_columns
-- locks: none
-- Newest first. Every state has its own way to its jobs; the ways that were not asked for are false before their first row.
-- What is large comes along until there is :max_bytes of it; behind that it is NULL, and has not been read.
SELECT {{listed_columns}}
FROM (
    SELECT f.*, SUM(f.bytes) OVER (ORDER BY f.seq DESC) - f.bytes AS bytes_before
    FROM (
        SELECT c.*, octet_length(c.payload) + COALESCE(octet_length(c.result), 0)
                  + COALESCE(octet_length(c.checkpoint), 0) AS bytes
        FROM (
            {{found}}
        ) AS c
        ORDER BY c.seq DESC
        LIMIT :limit
    ) AS f
) AS j
ORDER BY j.seq DESC
