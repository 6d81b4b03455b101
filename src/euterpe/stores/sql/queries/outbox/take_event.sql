-- How an event is claimed: the row of alias e.
UPDATE job_outbox_events AS e
SET state = 'running', claim_version = e.claim_version + 1, attempt_count = e.attempt_count + 1,
    worker_id = :worker_id, lease_expires_at = {{now}} + :lease_ttl_us, heartbeat_at = {{now}},
    started_at = {{now}}, updated_at = {{now}}
