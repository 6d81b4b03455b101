-- Waiting jobs of types that a worker does not know.
SELECT type, COUNT(*) FROM inbox_jobs
WHERE state = 'scheduled' AND queue {{in queues text}} AND NOT (type {{in types text}})
GROUP BY type
