-- takes: id, payload, requester_id, queue, type, run_at, delay_us, stages, priority, payload_format, max_attempts, lifetime_us,
--     execution_timeout_us, visibility_us, retry_policy, tags, correlation_id, callback_url, callback_events, replay_of, concurrency_key,
--     concurrency_limit
-- returns: nothing
-- locks: waits
-- Store jobs that differ in nothing but their id and payload, in the order given: one at a time, or a batch of one kind.
-- Whether they are delayed or ready is decided by the database's clock, for all of them at once.
INSERT INTO inbox_jobs (id, requester_id, queue, type, state, stages, priority, payload, payload_format,
    max_attempts, run_at, created_at, updated_at, scheduled_at, expires_at, execution_timeout_us, visibility_us,
    retry_policy, tags, correlation_id, callback_url, callback_events, replay_of, concurrency_key, concurrency_limit)
SELECT i.id, :requester_id, :queue, :type,
    CASE WHEN COALESCE(:run_at, :now + :delay_us) > :now THEN 'delayed' ELSE 'scheduled' END,
    :stages, :priority, i.payload, :payload_format, :max_attempts,
    COALESCE(:run_at, :now + :delay_us), :now, :now,
    CASE WHEN COALESCE(:run_at, :now + :delay_us) <= :now THEN :now END,
    :now + :lifetime_us, :execution_timeout_us, :visibility_us, :retry_policy, :tags, :correlation_id,
    :callback_url, :callback_events, :replay_of, :concurrency_key, :concurrency_limit
FROM {{rows id payload}} AS i
