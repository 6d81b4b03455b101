-- How many jobs of which state, queue and type there are.
SELECT state, queue, type, COUNT(*) FROM inbox_jobs
WHERE (CAST(:requester_id AS text) IS NULL OR requester_id = :requester_id)
GROUP BY state, queue, type
