-- takes: max_bytes, states, before, down_to, requester_id, type, type_prefix, queue, created_after, created_before, ended_after,
--     ended_before, replayed, correlation_id, error, tags, limit
-- returns: listed_columns
-- locks: none
-- Newest first. All states are the table backwards, one state is its part of the index backwards; the half that was not
-- asked for is false before its first row. As one condition with OR, a rare state was sought in the whole history.
-- What is large comes along until there is :max_bytes of it; behind that it is NULL, and has not been read.
SELECT {{listed_columns}}
FROM (
    SELECT f.seq, SUM(f.bytes) OVER (ORDER BY f.seq DESC) - f.bytes AS bytes_before
    FROM (
        SELECT * FROM (
            SELECT w.seq, length(w.payload) + COALESCE(length(w.result), 0) + COALESCE(length(w.checkpoint), 0) AS bytes
            FROM inbox_jobs AS w
            WHERE json_array_length(:states) > 1 AND w.seq < :before AND w.seq >= :down_to
              AND {{search_filters}}
            ORDER BY w.seq DESC LIMIT :limit
        )
        UNION ALL
        SELECT * FROM (
            SELECT w.seq, length(w.payload) + COALESCE(length(w.result), 0) + COALESCE(length(w.checkpoint), 0) AS bytes
            FROM inbox_jobs AS w
            WHERE json_array_length(:states) = 1 AND w.state = :states ->> 0 AND w.seq < :before AND w.seq >= :down_to
              AND {{search_filters}}
            ORDER BY w.seq DESC LIMIT :limit
        )
    ) AS f
    ORDER BY f.seq DESC
    LIMIT :limit
) AS l
JOIN inbox_jobs AS j ON j.seq = l.seq
ORDER BY l.seq DESC
