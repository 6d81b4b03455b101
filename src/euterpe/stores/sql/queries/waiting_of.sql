-- Depth and age of the queues as one requester sees them: its own live jobs.
SELECT queue, state, COUNT(*), MIN(COALESCE(scheduled_at, created_at)), {{now}}
FROM inbox_jobs
WHERE state IN ('pending', 'scheduled', 'delayed', 'retrying', 'running') AND requester_id = :requester_id
GROUP BY queue, state
