-- Depth and age of each queue: live jobs only, so the cost follows the backlog and not the history.
SELECT queue, state, COUNT(*), MIN(COALESCE(scheduled_at, created_at)), {{now}}
FROM inbox_jobs
WHERE state IN ('pending', 'scheduled', 'delayed', 'retrying', 'running')
GROUP BY queue, state
