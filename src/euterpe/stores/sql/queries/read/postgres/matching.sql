-- takes: states, before, down_to, requester_id, type, type_prefix, queue, created_after, created_before, ended_after, ended_before,
--     replayed, correlation_id, error, tags, limit
-- returns: seq, id, bytes
-- locks: none
-- Which jobs match, newest first, and how large they are. As `search`, without reading the jobs themselves.
SELECT c.seq, CAST(c.id AS text), octet_length(c.payload) + COALESCE(octet_length(c.result), 0)
                                  + COALESCE(octet_length(c.checkpoint), 0) AS bytes
FROM (
            {{found}}
) AS c
ORDER BY c.seq DESC
LIMIT :limit
