-- takes: state, limit, requester_id
-- returns: scheduled_at, run_at, started_at, completed_at
-- locks: none
-- When the newest completed jobs were due, began and ended.
SELECT r.scheduled_at, r.run_at, r.started_at, r.completed_at
FROM (SELECT scheduled_at, run_at, started_at, completed_at, requester_id FROM {{newest_of_state}}
      ORDER BY seq DESC LIMIT :limit) AS r
WHERE CAST(:requester_id AS TEXT) IS NULL OR r.requester_id = :requester_id
