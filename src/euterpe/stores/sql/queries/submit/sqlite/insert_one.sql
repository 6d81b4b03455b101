-- takes: id, requester_id, queue, type, run_at, delay_us, stages, priority, payload, payload_format, max_attempts, lifetime_us,
--     execution_timeout_us, visibility_us, retry_policy, tags, correlation_id, callback_url, callback_events, replay_of, concurrency_key,
--     concurrency_limit
-- returns: state, created_at
-- locks: waits
-- Store one job, as `insert_uniform` does many; without a JSON value around it, and without a second statement to read it back.
INSERT INTO inbox_jobs (id, requester_id, queue, type, state, stages, priority, payload, payload_format,
    max_attempts, run_at, created_at, updated_at, scheduled_at, expires_at, execution_timeout_us, visibility_us,
    retry_policy, tags, correlation_id, callback_url, callback_events, replay_of, concurrency_key, concurrency_limit)
VALUES (:id, :requester_id, :queue, :type,
    CASE WHEN COALESCE(:run_at, :now + :delay_us) > :now THEN 'delayed' ELSE 'scheduled' END,
    :stages, :priority, :payload, :payload_format, :max_attempts,
    COALESCE(:run_at, :now + :delay_us), :now, :now,
    CASE WHEN COALESCE(:run_at, :now + :delay_us) <= :now THEN :now END,
    :now + :lifetime_us, :execution_timeout_us, :visibility_us, :retry_policy, :tags, :correlation_id,
    :callback_url, :callback_events, :replay_of, :concurrency_key, :concurrency_limit)
RETURNING state, created_at
