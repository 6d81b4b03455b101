-- Newest first, one index scan per state asked for.
-- What is large comes along until there is :max_bytes of it; behind that it is NULL, and has not been read.
SELECT {{listed_columns}}
FROM (
    SELECT f.*, SUM(f.bytes) OVER (ORDER BY f.seq DESC) - f.bytes AS bytes_before
    FROM (
        SELECT c.*, octet_length(c.payload) + COALESCE(octet_length(c.result), 0)
                  + COALESCE(octet_length(c.checkpoint), 0) AS bytes
        FROM unnest(CAST(:states AS text[])) AS s (state),
        LATERAL (
            SELECT * FROM inbox_jobs AS w
            WHERE w.state = s.state AND w.seq < :before AND w.seq >= :down_to
              AND {{search_filters}}
            ORDER BY w.seq DESC
            LIMIT :limit
        ) AS c
        ORDER BY c.seq DESC
        LIMIT :limit
    ) AS f
) AS j
ORDER BY j.seq DESC
