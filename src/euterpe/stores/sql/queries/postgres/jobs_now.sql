(SELECT j.seq, j.id, j.requester_id, j.queue, j.type, j.priority, j.payload_format, j.callback_events, j.max_attempts,
        j.depth, j.created_at, j.expires_at, j.execution_timeout_us, j.visibility_us, j.concurrency_limit, j.payload,
        j.stages, j.retry_policy, j.tags, j.correlation_id, j.callback_url, j.idempotency_key, j.dependency,
        j.parent_id, j.replay_of, j.concurrency_key, j.stage_ordinal, j.release_count,
        j.outcome_hash, j.run_at, j.scheduled_at, j.completed_at, j.cancel_version, j.pending_dependencies,
        j.has_dependents, j.progress, j.progress_message, j.result, j.error, j.checkpoint, j.fingerprint,
        j.failed_at, j.replayed_as, j.unique_key,
        CASE WHEN c.receipt IS NULL THEN j.state ELSE 'running' END AS state,
        CASE WHEN c.receipt IS NULL THEN j.stage ELSE 'claimed' END AS stage,
        CASE WHEN c.receipt IS NULL THEN j.attempt_count ELSE 1 END AS attempt_count,
        CASE WHEN c.receipt IS NULL THEN j.claim_version ELSE 1 END AS claim_version,
        CASE WHEN c.receipt IS NULL THEN j.transitions ELSE j.transitions + 1 END AS transitions,
        CASE WHEN c.receipt IS NULL THEN j.worker_id ELSE c.worker_id END AS worker_id,
        CASE WHEN c.receipt IS NULL THEN j.lease_expires_at
             ELSE {{receipt_lease}} END AS lease_expires_at,
        CASE WHEN c.receipt IS NULL THEN j.lease_token_hash ELSE {{receipt_token}} END AS lease_token_hash,
        COALESCE(c.claimed_at, j.heartbeat_at) AS heartbeat_at, COALESCE(c.claimed_at, j.updated_at) AS updated_at,
        COALESCE(c.claimed_at, j.started_at) AS started_at, j.parked AND j.chunk IS NULL AS parked
    FROM inbox_jobs AS j
    LEFT JOIN LATERAL (SELECT * FROM euterpe_claims AS r
                       WHERE j.chunk IS NOT NULL AND j.state || '' = 'scheduled' AND r.ranges @> j.seq LIMIT 1) AS c ON true)
