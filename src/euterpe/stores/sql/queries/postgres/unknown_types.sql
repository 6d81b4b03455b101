-- Jobs at the front of a queue whose types a worker does not know. Nobody takes them, so the front is where they gather.
SELECT type, SUM(n)
FROM (
    SELECT i.type, 1 AS n FROM (
        SELECT type FROM inbox_jobs WHERE state || '' = 'scheduled' AND NOT parked AND queue = :queue
        ORDER BY priority, seq LIMIT :limit) AS i
    UNION ALL
    SELECT r.type, r.jobs FROM (
        SELECT type, jobs FROM euterpe_ready WHERE queue = :queue ORDER BY priority, lo LIMIT :limit) AS r
) AS front
WHERE NOT (type {{in types text}})
GROUP BY type
