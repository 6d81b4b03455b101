-- Which scheduled jobs of one queue are next, most urgent first, oldest first inside a priority; how large they are; the time; whether
-- no event follows from their claim; the jobs themselves, if all of them are small and as their submit left them: ids, payloads, and what
-- jobs of a bulk submit have in common, once if it is all the same; and those with a concurrency key, each with its limit.
SELECT json_group_array(seq), COALESCE(SUM(size), 0), :now, {{picked_rows}}
FROM (
    SELECT j.seq, {{picked_columns}}
    FROM inbox_jobs AS j
    WHERE {{claimable}}
      AND (:types IS NULL OR type IN (SELECT value FROM json_each(:types)))
    ORDER BY priority, seq
    LIMIT :limit
)
