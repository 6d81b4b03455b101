-- takes: nothing
-- returns: state, count, min_created_at
-- locks: none
-- Undelivered and dead events.
SELECT state, COUNT(*), MIN(created_at) FROM job_outbox_events
WHERE state IN ('scheduled', 'running', 'retrying', 'dead_letter') GROUP BY state
