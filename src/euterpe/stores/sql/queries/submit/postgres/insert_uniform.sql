-- takes: run_at, delay_us, requester_id, queue, type, stages, priority, payload_format, max_attempts, lifetime_us, execution_timeout_us,
--     visibility_us, retry_policy, tags, correlation_id, callback_url, callback_events, replay_of, concurrency_key, concurrency_limit, id,
--     payload
-- returns: state, created_at
-- locks: waits
-- Store jobs that differ in nothing but their id and payload, in the order given; what is ready enters the line, in runs.
-- Whether they are delayed or ready is decided by the database's clock, for all of them at once.
WITH clock AS MATERIALIZED (
    SELECT c.now, COALESCE(CAST(:run_at AS bigint), c.now + CAST(:delay_us AS bigint)) AS due
    FROM (SELECT {{now}} AS now) AS c
), entering AS (
    INSERT INTO inbox_jobs AS j (id, requester_id, queue, type, state, stages, priority, payload, payload_format,
        max_attempts, run_at, created_at, updated_at, scheduled_at, expires_at, execution_timeout_us, visibility_us,
        retry_policy, tags, correlation_id, callback_url, callback_events, replay_of, concurrency_key, concurrency_limit, listed)
    SELECT i.id, CAST(:requester_id AS text), CAST(:queue AS text), CAST(:type AS text),
        CASE WHEN clock.due > clock.now THEN 'delayed' ELSE 'scheduled' END,
        CAST(:stages AS text), CAST(:priority AS smallint), i.payload, CAST(:payload_format AS text),
        CAST(:max_attempts AS integer), clock.due, clock.now, clock.now,
        CASE WHEN clock.due <= clock.now THEN clock.now END, clock.now + CAST(:lifetime_us AS bigint),
        CAST(:execution_timeout_us AS bigint), CAST(:visibility_us AS bigint), CAST(:retry_policy AS text),
        CAST(:tags AS text), CAST(:correlation_id AS text), CAST(:callback_url AS text),
        CAST(:callback_events AS text), CAST(:replay_of AS uuid), CAST(:concurrency_key AS text),
        CAST(:concurrency_limit AS integer), CASE WHEN clock.due > clock.now THEN 'delayed' END
    FROM clock, unnest(CAST(:id AS uuid[]), CAST(:payload AS bytea[])) WITH ORDINALITY AS i (id, payload, position)
    ORDER BY i.position
    RETURNING {{entering_columns}}
), {{enter}}
SELECT CASE WHEN due > now THEN 'delayed' ELSE 'scheduled' END, now FROM clock
