-- Jobs at the front of a queue whose types a worker does not know. Nobody takes them, so the front is where they gather.
SELECT type, CAST(SUM(jobs) AS bigint)
FROM (
    (SELECT type, 1 AS jobs FROM inbox_jobs WHERE indexed_state || '' = 'scheduled' AND NOT parked AND queue = :queue
     ORDER BY priority, seq LIMIT :limit)
    UNION ALL
    (SELECT type, jobs FROM euterpe_ready WHERE queue = :queue ORDER BY priority, lo LIMIT :limit)
) AS front
WHERE NOT (type {{in types text}})
GROUP BY type
