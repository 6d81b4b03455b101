-- takes: states, before, down_to, requester_id, type, type_prefix, queue, created_after, created_before, ended_after, ended_before,
--     replayed, correlation_id, error, tags, limit
-- returns: seq, id, bytes
-- locks: none
-- Which jobs match, newest first, and how large they are. As `search`, without reading the jobs themselves.
SELECT m.seq, m.id, m.bytes
FROM (
        {{found}}
) AS m
ORDER BY m.seq DESC
