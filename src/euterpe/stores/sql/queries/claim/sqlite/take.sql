-- takes: worker_ids, worker_id, picked_at, lease_ttl_us, overrun_us, seqs
-- returns: nothing
-- locks: waits
-- Claim the jobs that were picked in the same transaction, at the time of that. :worker_ids is NULL where all are for one worker.
UPDATE inbox_jobs AS j
SET state = 'running', stage = 'claimed', stage_ordinal = 0,
    claim_version = j.claim_version + 1, attempt_count = j.attempt_count + 1,
    worker_id = CASE WHEN :worker_ids IS NULL THEN :worker_id ELSE json_extract(:worker_ids, '$."' || j.seq || '"') END,
    lease_expires_at = :picked_at + MIN(:lease_ttl_us, j.visibility_us, j.execution_timeout_us + :overrun_us), heartbeat_at = :picked_at,
    started_at = :picked_at, updated_at = :picked_at, progress = NULL, progress_message = NULL,
    transitions = j.transitions + 1
WHERE j.seq IN (SELECT value FROM json_each(:seqs))
