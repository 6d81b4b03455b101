-- One requester's undelivered and dead events.
SELECT state, COUNT(*) FROM job_outbox_events
WHERE state IN ('scheduled', 'running', 'retrying', 'dead_letter') AND requester_id = :requester_id GROUP BY state
