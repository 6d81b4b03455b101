-- takes: state, limit, requester_id
-- returns: worker_id, count, max_completed_at
-- locks: none
-- Workers by the newest jobs that they completed.
SELECT r.worker_id, COUNT(*), MAX(r.completed_at)
FROM (SELECT worker_id, completed_at, requester_id FROM {{newest_of_state}}
      ORDER BY seq DESC LIMIT :limit) AS r
WHERE r.worker_id IS NOT NULL AND (CAST(:requester_id AS TEXT) IS NULL OR r.requester_id = :requester_id)
GROUP BY r.worker_id
ORDER BY 3 DESC
