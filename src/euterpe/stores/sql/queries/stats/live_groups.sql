-- takes: state, limit, requester_id
-- returns: queue, type, count, min_scheduled_at
-- locks: none
-- Jobs of a state that has not ended, the oldest up to a limit: by queue and type, and since when the first is there.
SELECT r.queue, r.type, COUNT(*), MIN(COALESCE(r.scheduled_at, r.created_at))
FROM (SELECT queue, type, requester_id, scheduled_at, created_at FROM inbox_jobs
      WHERE state = :state ORDER BY seq LIMIT :limit) AS r
WHERE CAST(:requester_id AS TEXT) IS NULL OR r.requester_id = :requester_id
GROUP BY r.queue, r.type
