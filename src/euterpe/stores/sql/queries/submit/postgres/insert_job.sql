-- takes: rows of id, requester_id, queue, type, state, stages, priority, payload, payload_format, max_attempts, run_at, delay_us,
--     lifetime_us, execution_timeout_us, visibility_us, retry_policy, error, tags, correlation_id, callback_url, callback_events,
--     idempotency_key, dependency, pending_dependencies, depth, has_dependents, parent_id, replay_of, concurrency_key, concurrency_limit,
--     unique_key
-- returns: id, state, created_at
-- locks: waits
-- Store jobs, in the order given. Whether one is delayed or ready is decided by the database's clock; what is ready enters the line.
WITH entering AS (
INSERT INTO inbox_jobs AS j (id, requester_id, queue, type, state, stages, priority, payload, payload_format,
    max_attempts, run_at, created_at, updated_at, scheduled_at, completed_at, expires_at,
    execution_timeout_us, visibility_us, retry_policy, error, tags, correlation_id, callback_url,
    callback_events, idempotency_key, dependency, pending_dependencies, depth, has_dependents, parent_id,
    replay_of, concurrency_key, concurrency_limit, unique_key, listed)
SELECT i.id, i.requester_id, i.queue, i.type,
    CASE WHEN i.state <> 'scheduled' THEN i.state
         WHEN COALESCE(i.run_at, clock.now + i.delay_us) > clock.now THEN 'delayed' ELSE 'scheduled' END,
    i.stages, i.priority, i.payload, i.payload_format, i.max_attempts,
    COALESCE(i.run_at, clock.now + i.delay_us), clock.now, clock.now,
    CASE WHEN i.state = 'scheduled' AND COALESCE(i.run_at, clock.now + i.delay_us) <= clock.now
         THEN clock.now END,
    CASE WHEN i.state NOT IN ('pending', 'scheduled') THEN clock.now END,
    clock.now + i.lifetime_us, i.execution_timeout_us, i.visibility_us, i.retry_policy, i.error, i.tags,
    i.correlation_id, i.callback_url, i.callback_events, i.idempotency_key, i.dependency,
    i.pending_dependencies, i.depth, i.has_dependents, i.parent_id, i.replay_of, i.concurrency_key,
    i.concurrency_limit, i.unique_key,
    CASE WHEN i.state <> 'scheduled' THEN i.state
         WHEN COALESCE(i.run_at, clock.now + i.delay_us) > clock.now THEN 'delayed' END
FROM (SELECT {{now}} AS now) AS clock,
    unnest(CAST(:id AS uuid[]), CAST(:requester_id AS text[]), CAST(:queue AS text[]), CAST(:type AS text[]),
           CAST(:state AS text[]), CAST(:stages AS text[]), CAST(:priority AS smallint[]),
           CAST(:payload AS bytea[]), CAST(:payload_format AS text[]), CAST(:max_attempts AS integer[]),
           CAST(:run_at AS bigint[]), CAST(:delay_us AS bigint[]), CAST(:lifetime_us AS bigint[]),
           CAST(:execution_timeout_us AS bigint[]), CAST(:visibility_us AS bigint[]),
           CAST(:retry_policy AS text[]), CAST(:error AS text[]), CAST(:tags AS text[]),
           CAST(:correlation_id AS text[]), CAST(:callback_url AS text[]), CAST(:callback_events AS text[]),
           CAST(:idempotency_key AS text[]), CAST(:dependency AS text[]),
           CAST(:pending_dependencies AS integer[]), CAST(:depth AS smallint[]),
           CAST(:has_dependents AS boolean[]), CAST(:parent_id AS uuid[]), CAST(:replay_of AS uuid[]),
           CAST(:concurrency_key AS text[]), CAST(:concurrency_limit AS integer[]),
           CAST(:unique_key AS text[]))
        WITH ORDINALITY
        AS i (id, requester_id, queue, type, state, stages, priority, payload, payload_format, max_attempts,
              run_at, delay_us, lifetime_us, execution_timeout_us, visibility_us, retry_policy, error, tags,
              correlation_id, callback_url, callback_events, idempotency_key, dependency,
              pending_dependencies, depth, has_dependents, parent_id, replay_of, concurrency_key,
              concurrency_limit, unique_key, position)
ORDER BY i.position
RETURNING j.id, j.created_at, {{entering_columns}}
), {{enter}}
SELECT CAST(id AS text), state, created_at FROM entering
