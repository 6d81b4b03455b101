j.seq, CAST(j.id AS TEXT), j.requester_id, j.queue, j.type, j.priority, j.payload, j.payload_format,
        j.attempt_count, j.max_attempts, j.release_count, j.claim_version, j.run_at, j.created_at, j.scheduled_at,
        j.started_at, j.expires_at, j.execution_timeout_us, j.visibility_us, j.retry_policy, j.stages, j.error,
        j.checkpoint, j.tags, j.correlation_id, j.callback_events, j.idempotency_key, j.dependency, j.depth,
        j.has_dependents, CAST(j.parent_id AS TEXT), CAST(j.replay_of AS TEXT), j.cancel_version, j.transitions, j.callback_url
