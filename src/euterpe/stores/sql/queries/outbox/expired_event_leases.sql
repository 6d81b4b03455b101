-- takes: limit
-- returns: event_columns
-- locks: skips
-- Events whose dispatcher stopped renewing.
SELECT {{event_columns}} FROM job_outbox_events AS e
WHERE e.state = 'running' AND e.lease_expires_at < {{now}}
ORDER BY e.seq LIMIT :limit {{skip_locked}}
