-- takes: state, limit, requester_id
-- returns: queue, priority, count, min_scheduled_at
-- locks: none
-- One requester's waiting jobs among the newest that wait, by queue and priority, with the oldest one's time.
SELECT n.queue, n.priority, COUNT(*), MIN(COALESCE(n.scheduled_at, n.created_at))
FROM (SELECT queue, priority, scheduled_at, created_at, requester_id FROM {{newest_of_state}}
      ORDER BY seq DESC LIMIT :limit) AS n
WHERE n.requester_id = :requester_id
GROUP BY n.queue, n.priority
ORDER BY n.queue, n.priority
