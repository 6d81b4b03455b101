-- Newest first, one index scan per state asked for.
SELECT {{job_columns}}
FROM unnest(CAST(:states AS text[])) AS s (state),
LATERAL (
    SELECT * FROM inbox_jobs AS w
    WHERE w.state = s.state AND w.seq < :before
      AND (CAST(:requester_id AS text) IS NULL OR w.requester_id = :requester_id)
      AND (CAST(:type AS text) IS NULL OR w.type = :type)
      AND (CAST(:queue AS text) IS NULL OR w.queue = :queue)
      AND (CAST(:tag AS text) IS NULL OR strpos(w.tags, '{' || :tag) = 1 OR strpos(w.tags, ',' || :tag) > 0)
    ORDER BY w.seq DESC
    LIMIT :limit
) AS j
ORDER BY j.seq DESC
LIMIT :limit
