j.seq, CAST(j.id AS TEXT), j.requester_id, j.queue, j.type, j.priority, j.payload, j.payload_format,
        1, j.max_attempts, j.release_count, CAST(1 AS bigint), j.run_at, j.created_at, j.scheduled_at,
        {{now}}, j.expires_at, j.execution_timeout_us, j.visibility_us, j.retry_policy, j.stages, j.error,
        j.checkpoint, j.tags, j.correlation_id, j.callback_events, j.idempotency_key, j.dependency, j.depth,
        j.has_dependents, CAST(j.parent_id AS TEXT), CAST(j.replay_of AS TEXT), j.cancel_version, j.transitions + 1, j.callback_url
