-- takes: each state, error, delay_us, refund, id, claim_version
-- returns: id, claim_version
-- locks: waits
-- End a delivery, fenced.
UPDATE job_outbox_events AS e
SET state = :state, error = :error, updated_at = {{now}}, lease_expires_at = NULL,
    run_at = CASE WHEN :state = 'retrying' THEN {{now}} + :delay_us ELSE e.run_at END,
    completed_at = CASE WHEN :state IN ('completed', 'dead_letter') THEN {{now}} END,
    attempt_count = e.attempt_count - :refund
WHERE e.id = :id AND e.claim_version = :claim_version AND e.lease_expires_at IS NOT NULL
RETURNING CAST(e.id AS TEXT), e.claim_version
