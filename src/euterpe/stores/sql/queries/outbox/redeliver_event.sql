-- takes: id, requester_id
-- returns: event_columns
-- locks: waits
-- Send a dead or delivered event again: same id, same body, a fresh budget.
UPDATE job_outbox_events AS e
SET state = 'scheduled', run_at = {{now}}, attempt_count = 0, completed_at = NULL, updated_at = {{now}}
WHERE e.id = :id AND e.state IN ('completed', 'dead_letter', 'retrying')
  AND (CAST(:requester_id AS TEXT) IS NULL OR e.requester_id = :requester_id)
RETURNING {{event_columns}}
