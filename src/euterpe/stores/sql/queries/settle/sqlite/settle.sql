-- takes: each state, result, error, delay_us, refund, release, take_away, outcome_hash, fingerprint, id, claim_version, in_time
-- returns: moved_columns, claim_version, queue, type, requester_id, unique_key
-- locks: waits
-- ends: jobs
-- End an attempt, fenced. A retry or release of a claim that was asked to cancel ends cancelled instead. `in_time`: refused after its deadline.
UPDATE inbox_jobs AS j
SET state = CASE WHEN j.cancel_version = j.claim_version AND :state IN ('retrying', 'scheduled')
                 THEN 'cancelled' ELSE :state END,
    result = :result, error = COALESCE(:error, CASE WHEN :state = 'completed' THEN NULL ELSE j.error END),
    run_at = CASE WHEN :state = 'retrying' AND j.cancel_version IS NOT j.claim_version
                  THEN :now + :delay_us ELSE j.run_at END,
    scheduled_at = CASE WHEN :state = 'scheduled' AND j.cancel_version IS NOT j.claim_version
                        THEN :now ELSE j.scheduled_at END,
    completed_at = CASE WHEN :state IN ('retrying', 'scheduled') AND j.cancel_version IS NOT j.claim_version
                        THEN NULL ELSE :now END,
    attempt_count = j.attempt_count - :refund, release_count = j.release_count + :release,
    claim_version = j.claim_version + :take_away,
    lease_expires_at = NULL, updated_at = :now,
    outcome_hash = CASE :state WHEN 'completed' THEN :outcome_hash END,
    fingerprint = :fingerprint, failed_at = CASE WHEN :fingerprint IS NOT NULL THEN :now END,
    transitions = j.transitions + CASE :state WHEN 'dead_letter' THEN 2 ELSE 1 END
WHERE j.id = :id AND j.claim_version = :claim_version AND j.lease_expires_at IS NOT NULL
  AND (NOT :in_time OR j.started_at + j.execution_timeout_us >= :now)
RETURNING {{moved_columns}}, :claim_version, j.queue, j.type, j.requester_id, j.unique_key
