-- Depth and age of each queue: live jobs only, so the cost follows the backlog and not the history.
SELECT l.queue, l.state, CAST(SUM(l.jobs) AS bigint), MIN(l.since), {{now}}
FROM (
    SELECT queue, state, 1 AS jobs, COALESCE(scheduled_at, created_at) AS since FROM inbox_jobs
    WHERE indexed_state IN ('pending', 'scheduled', 'delayed', 'retrying', 'running')
    UNION ALL
    SELECT r.queue, 'scheduled', r.jobs, r.waiting_since FROM euterpe_ready AS r
    UNION ALL
    SELECT j.queue, j.state, 1, COALESCE(j.scheduled_at, j.created_at)
    FROM euterpe_claims AS c, unnest(c.ranges) AS x, {{plain_in}}
) AS l
GROUP BY l.queue, l.state
