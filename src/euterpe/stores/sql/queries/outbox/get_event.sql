-- takes: id
-- returns: event_columns
-- locks: none
SELECT {{event_columns}} FROM job_outbox_events AS e WHERE e.id = :id
