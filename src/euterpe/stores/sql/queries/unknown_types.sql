-- Jobs at the front of a queue whose types a worker does not know. Nobody takes them, so the front is where they gather.
SELECT type, COUNT(*)
FROM (
    SELECT type FROM inbox_jobs WHERE state || '' = 'scheduled' AND NOT parked AND queue = :queue
    ORDER BY priority, seq LIMIT :limit
) AS front
WHERE NOT (type {{in types text}})
GROUP BY type
