-- Which jobs match, newest first, and how large they are. As `search`, without reading the jobs themselves.
SELECT c.seq, CAST(c.id AS text), c.bytes
FROM unnest(CAST(:states AS text[])) AS s (state),
LATERAL (
    SELECT w.seq, w.id, octet_length(w.payload) + COALESCE(octet_length(w.result), 0)
                       + COALESCE(octet_length(w.checkpoint), 0) AS bytes
    FROM inbox_jobs AS w
    WHERE w.state = s.state AND w.seq < :before AND w.seq >= :down_to
      AND {{search_filters}}
    ORDER BY w.seq DESC
    LIMIT :limit
) AS c
ORDER BY c.seq DESC
LIMIT :limit
