-- What waits at the front of a queue, by type; of a chunk, all that it has.
SELECT f.type, CAST(SUM(f.jobs) AS bigint), {{now}} - MIN(f.since)
FROM (
    (SELECT j.type, COALESCE(j.scheduled_at, j.created_at) AS since, 1 AS jobs FROM inbox_jobs AS j
     WHERE j.indexed_state || '' = 'scheduled' AND NOT j.parked AND j.queue = :queue
     ORDER BY j.priority, j.seq LIMIT :limit)
    UNION ALL
    (SELECT r.type, r.waiting_since, r.jobs FROM euterpe_ready AS r WHERE r.queue = :queue
     ORDER BY r.priority, r.lo LIMIT :limit)
) AS f
GROUP BY f.type
