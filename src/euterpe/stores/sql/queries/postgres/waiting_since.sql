-- Jobs of one queue that a worker could take, and that have waited for a while: what a lost transport is told again.
SELECT CAST(j.id AS TEXT), j.priority
FROM (
    SELECT id, priority, seq, type, expires_at, scheduled_at, created_at FROM inbox_jobs
    WHERE indexed_state = 'scheduled' AND NOT parked AND queue = :queue
    UNION ALL
    SELECT j.id, j.priority, j.seq, j.type, j.expires_at, j.scheduled_at, j.created_at
    FROM euterpe_ready AS r, unnest(r.ranges) AS x, {{plain_in}}
    WHERE r.queue = :queue
) AS j
WHERE j.type NOT IN (SELECT name FROM euterpe_pauses WHERE kind = 'type')
  AND NOT EXISTS (SELECT 1 FROM euterpe_pauses WHERE kind = 'queue' AND name = :queue)
  AND j.expires_at > {{now}} AND COALESCE(j.scheduled_at, j.created_at) <= {{now}} - :age_us
ORDER BY j.priority, j.seq
LIMIT :limit
