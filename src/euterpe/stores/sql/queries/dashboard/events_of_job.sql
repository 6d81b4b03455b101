-- takes: id, limit
-- returns: listed_event_columns
-- locks: none
-- The webhook events of one job, newest first. Without their bodies, which may be large.
SELECT {{listed_event_columns}} FROM job_outbox_events AS e
WHERE e.job_id = :id AND e.sequence + 0 >= 0
ORDER BY e.seq DESC LIMIT :limit
