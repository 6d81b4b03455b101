-- takes: states, before, down_to, requester_id, type, type_prefix, queue, created_after, created_before, ended_after, ended_before,
--     replayed, correlation_id, error, tags, limit
-- returns: seq, id, bytes
-- locks: none
-- Which jobs match, newest first, and how large they are. As `search`, without reading the jobs themselves.
SELECT m.seq, m.id, m.bytes
FROM (
    SELECT * FROM (
        SELECT w.seq, w.id, length(w.payload) + COALESCE(length(w.result), 0) + COALESCE(length(w.checkpoint), 0) AS bytes
        FROM inbox_jobs AS w
        WHERE json_array_length(:states) > 1 AND w.seq < :before AND w.seq >= :down_to
          AND {{search_filters}}
        ORDER BY w.seq DESC LIMIT :limit
    )
    UNION ALL
    SELECT * FROM (
        SELECT w.seq, w.id, length(w.payload) + COALESCE(length(w.result), 0) + COALESCE(length(w.checkpoint), 0) AS bytes
        FROM inbox_jobs AS w
        WHERE json_array_length(:states) = 1 AND w.state = :states ->> 0 AND w.seq < :before AND w.seq >= :down_to
          AND {{search_filters}}
        ORDER BY w.seq DESC LIMIT :limit
    )
) AS m
ORDER BY m.seq DESC
LIMIT :limit
