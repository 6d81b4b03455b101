-- End an attempt, fenced. A retry or release of a claim that was asked to cancel ends cancelled instead.
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
RETURNING {{moved_columns}}, :claim_version, j.queue, j.type
