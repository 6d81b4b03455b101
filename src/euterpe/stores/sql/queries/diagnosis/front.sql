-- What waits at the front of a queue, by type.
SELECT f.type, COUNT(*), {{now}} - MIN(f.since)
FROM (SELECT j.type, COALESCE(j.scheduled_at, j.created_at) AS since FROM inbox_jobs AS j
      WHERE j.state || '' = 'scheduled' AND NOT j.parked AND j.queue = :queue
      ORDER BY j.priority, j.seq LIMIT :limit) AS f
GROUP BY f.type
