-- takes: rows of id, claim_version, state, error, delay_us, refund
-- returns: id, claim_version
-- locks: waits
-- End deliveries, fenced.
UPDATE job_outbox_events AS e
SET state = i.state, error = i.error, updated_at = {{now}}, lease_expires_at = NULL,
    run_at = CASE WHEN i.state = 'retrying' THEN {{now}} + i.delay_us ELSE e.run_at END,
    completed_at = CASE WHEN i.state IN ('completed', 'dead_letter') THEN {{now}} END,
    attempt_count = e.attempt_count - i.refund
FROM unnest(CAST(:id AS uuid[]), CAST(:claim_version AS bigint[]), CAST(:state AS text[]),
            CAST(:error AS text[]), CAST(:delay_us AS bigint[]), CAST(:refund AS integer[]))
    AS i (id, claim_version, state, error, delay_us, refund)
WHERE e.id = i.id AND e.claim_version = i.claim_version AND e.lease_expires_at IS NOT NULL
RETURNING CAST(e.id AS text), e.claim_version
