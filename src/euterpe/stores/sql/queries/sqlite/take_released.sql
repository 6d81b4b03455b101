-- `take`, where some of the jobs are let go in the same transaction (`pick_released`): they pass through `scheduled` within this write.
UPDATE inbox_jobs AS j
SET state = 'running', stage = 'claimed', stage_ordinal = 0,
    claim_version = j.claim_version + 1, attempt_count = j.attempt_count + 1,
    worker_id = :worker_id, lease_token_hash = NULL,
    lease_expires_at = :picked_at + MIN(:lease_ttl_us, j.visibility_us, j.execution_timeout_us + {{overrun}}), heartbeat_at = :picked_at,
    started_at = :picked_at, updated_at = :picked_at, progress = NULL, progress_message = NULL,
    scheduled_at = CASE WHEN j.pending_dependencies > 0 THEN :picked_at ELSE j.scheduled_at END,
    transitions = j.transitions + 1 + (j.pending_dependencies > 0), pending_dependencies = 0
WHERE j.seq IN (SELECT value FROM json_each(:seqs))
