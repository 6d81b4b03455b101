-- `pick` for a worker that asks for more than it can begin at once; and which of those cannot wait.
SELECT json_group_array(seq), COALESCE(SUM(size), 0), json_group_array(seq) FILTER (WHERE NOT can_wait)
FROM (
    SELECT seq, LENGTH(payload) + COALESCE(LENGTH(checkpoint), 0) + COALESCE(LENGTH(error), 0) AS size,
           {{prefetchable}} AS can_wait
    FROM inbox_jobs
    WHERE {{claimable}}
      AND (:types IS NULL OR type IN (SELECT value FROM json_each(:types)))
    ORDER BY priority, seq
    LIMIT :limit
)
