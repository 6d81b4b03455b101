-- Which jobs match, newest first, and how large they are. As `search`, without reading the jobs themselves.
SELECT c.seq, CAST(c.id AS text), octet_length(c.payload) + COALESCE(octet_length(c.result), 0)
                                  + COALESCE(octet_length(c.checkpoint), 0) AS bytes
FROM unnest(CAST(:states AS text[])) AS s (state), LATERAL (
            {{found}}
) AS c
ORDER BY c.seq DESC
LIMIT :limit
