-- Which scheduled jobs of one queue are next, most urgent first, oldest first inside a priority, and how large they are.
SELECT json_group_array(seq), COALESCE(SUM(size), 0)
FROM (
    SELECT seq, LENGTH(payload) + COALESCE(LENGTH(checkpoint), 0) + COALESCE(LENGTH(error), 0) AS size
    FROM inbox_jobs
    WHERE {{claimable}}
      AND (:types IS NULL OR type IN (SELECT value FROM json_each(:types)))
    ORDER BY priority, seq
    LIMIT :limit
)
