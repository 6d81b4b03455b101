-- takes: each id, requester_id, queue, type, state, run_at, delay_us, stages, priority, payload, payload_format, max_attempts, lifetime_us,
--     execution_timeout_us, visibility_us, retry_policy, error, tags, correlation_id, callback_url, callback_events, idempotency_key,
--     dependency, pending_dependencies, depth, has_dependents, parent_id, replay_of, concurrency_key, concurrency_limit, unique_key
-- returns: id, state, created_at
-- locks: waits
-- Store a job. Whether it is delayed or ready is decided by the database's clock.
INSERT INTO inbox_jobs AS j (id, requester_id, queue, type, state, stages, priority, payload, payload_format,
    max_attempts, run_at, created_at, updated_at, scheduled_at, completed_at, expires_at,
    execution_timeout_us, visibility_us, retry_policy, error, tags, correlation_id, callback_url,
    callback_events, idempotency_key, dependency, pending_dependencies, depth, has_dependents, parent_id,
    replay_of, concurrency_key, concurrency_limit, unique_key)
SELECT :id, :requester_id, :queue, :type,
    CASE WHEN :state <> 'scheduled' THEN :state
         WHEN COALESCE(:run_at, :now + :delay_us) > :now THEN 'delayed' ELSE 'scheduled' END,
    :stages, :priority, :payload, :payload_format, :max_attempts,
    COALESCE(:run_at, :now + :delay_us), :now, :now,
    CASE WHEN :state = 'scheduled' AND COALESCE(:run_at, :now + :delay_us) <= :now THEN :now END,
    CASE WHEN :state NOT IN ('pending', 'scheduled') THEN :now END,
    :now + :lifetime_us, :execution_timeout_us, :visibility_us, :retry_policy, :error, :tags,
    :correlation_id, :callback_url, :callback_events, :idempotency_key, :dependency, :pending_dependencies,
    :depth, :has_dependents, :parent_id, :replay_of, :concurrency_key, :concurrency_limit,
    :unique_key
RETURNING id, state, created_at
