j.seq, CAST(j.id AS TEXT), j.requester_id, j.queue, j.type, j.state, j.stage, j.priority,
    j.payload, j.payload_format, j.attempt_count, j.max_attempts, j.release_count, j.claim_version,
    j.worker_id, j.lease_expires_at, j.heartbeat_at, j.run_at, j.created_at, j.updated_at,
    j.scheduled_at, j.started_at, j.completed_at, j.expires_at, j.execution_timeout_us, j.visibility_us,
    j.retry_policy, j.stages, j.result, j.error, j.progress, j.progress_message, j.checkpoint,
    j.tags, j.correlation_id, j.callback_url, j.callback_events, j.idempotency_key,
    j.dependency, j.pending_dependencies, j.depth, j.has_dependents, CAST(j.parent_id AS TEXT),
    CAST(j.replay_of AS TEXT), j.cancel_version, j.transitions, j.concurrency_key, j.concurrency_limit
