-- Claim the jobs that were picked in the same transaction.
UPDATE inbox_jobs AS j
SET state = 'running', stage = 'claimed', stage_ordinal = 0,
    claim_version = j.claim_version + 1, attempt_count = j.attempt_count + 1,
    worker_id = :worker_id, lease_token_hash = NULL,
    lease_expires_at = :now + MIN(:lease_ttl_us, j.visibility_us, j.execution_timeout_us + {{overrun}}), heartbeat_at = :now,
    started_at = :now, updated_at = :now, progress = NULL, progress_message = NULL,
    transitions = j.transitions + 1
WHERE j.seq IN (SELECT value FROM json_each(:seqs))
