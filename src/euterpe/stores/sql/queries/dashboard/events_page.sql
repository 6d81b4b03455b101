-- takes: state, before, down_to, requester_id, limit
-- returns: seq, listed_event_columns
-- locks: none
-- Events of one state between two places, newest first. Without their bodies, which may be large.
SELECT e.seq, {{listed_event_columns}} FROM job_outbox_events AS e
WHERE e.state = :state AND e.seq < :before AND e.seq > :down_to
  AND (CAST(:requester_id AS TEXT) IS NULL OR e.requester_id = :requester_id)
ORDER BY e.seq DESC LIMIT :limit
