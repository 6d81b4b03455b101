-- Newest first, one index scan per state asked for, and one for each stretch of jobs that are in no chunk any more.
-- What is large comes along until there is :max_bytes of it; behind that it is NULL, and has not been read.
SELECT {{listed_columns}}
FROM (
    SELECT f.*, SUM(f.bytes) OVER (ORDER BY f.seq DESC) - f.bytes AS bytes_before
    FROM (
        SELECT c.*, octet_length(c.payload) + COALESCE(octet_length(c.result), 0)
                  + COALESCE(octet_length(c.checkpoint), 0) AS bytes
        FROM unnest(CAST(:states AS text[])) AS s (state), LATERAL (
            {{found}}
        ) AS c
        ORDER BY c.seq DESC
        LIMIT :limit
    ) AS f
) AS j
ORDER BY j.seq DESC
