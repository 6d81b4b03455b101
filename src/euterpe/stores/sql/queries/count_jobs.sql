-- How many jobs of which state, queue and type there are.
SELECT state, queue, type, COUNT(*) FROM inbox_jobs
WHERE (:requester_id IS NULL OR requester_id = :requester_id)
GROUP BY state, queue, type
