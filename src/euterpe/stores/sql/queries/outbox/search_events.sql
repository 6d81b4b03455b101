-- takes: before, requester_id, state, job_id, limit
-- returns: seq, listed_event_columns
-- locks: none
-- Events, newest first, optionally of one job or state. Without their bodies, which may be large.
SELECT e.seq, {{listed_event_columns}} FROM job_outbox_events AS e
WHERE e.seq < :before
  AND (CAST(:requester_id AS TEXT) IS NULL OR e.requester_id = :requester_id)
  AND (CAST(:state AS TEXT) IS NULL OR e.state = :state)
  AND (CAST(:job_id AS TEXT) IS NULL OR CAST(e.job_id AS TEXT) = :job_id)
ORDER BY e.seq DESC LIMIT :limit
