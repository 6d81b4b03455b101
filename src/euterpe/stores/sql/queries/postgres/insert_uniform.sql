-- Store jobs that differ in nothing but their id and payload, in the order given.
-- Whether they are delayed or ready is decided by the database's clock, for all of them at once.
WITH clock AS MATERIALIZED (
    SELECT c.now, COALESCE(CAST(:run_at AS bigint), c.now + CAST(:delay_us AS bigint)) AS due
    FROM (SELECT {{now}} AS now) AS c
), chunks AS MATERIALIZED (
    SELECT g AS number, nextval('euterpe_chunks') AS chunk
    FROM clock, generate_series(0, (cardinality(CAST(:id AS uuid[])) - 1) / 250) AS g
    WHERE clock.due <= clock.now AND CAST(:callback_url AS text) IS NULL AND CAST(:concurrency_key AS text) IS NULL
      AND CAST(:stages AS text) IS NULL
), stored AS (
    INSERT INTO inbox_jobs (id, requester_id, queue, type, state, stages, priority, payload, payload_format,
        max_attempts, run_at, created_at, updated_at, scheduled_at, expires_at, execution_timeout_us, visibility_us,
        retry_policy, tags, correlation_id, callback_url, callback_events, replay_of, concurrency_key,
        concurrency_limit, chunk, parked)
    SELECT i.id, CAST(:requester_id AS text), CAST(:queue AS text), CAST(:type AS text),
        CASE WHEN clock.due > clock.now THEN 'delayed' ELSE 'scheduled' END,
        CAST(:stages AS text), CAST(:priority AS smallint), i.payload, CAST(:payload_format AS text),
        CAST(:max_attempts AS integer), clock.due, clock.now, clock.now,
        CASE WHEN clock.due <= clock.now THEN clock.now END, clock.now + CAST(:lifetime_us AS bigint),
        CAST(:execution_timeout_us AS bigint), CAST(:visibility_us AS bigint), CAST(:retry_policy AS text),
        CAST(:tags AS text), CAST(:correlation_id AS text), CAST(:callback_url AS text),
        CAST(:callback_events AS text), CAST(:replay_of AS uuid), CAST(:concurrency_key AS text),
        CAST(:concurrency_limit AS integer), k.chunk, k.chunk IS NOT NULL
    FROM clock CROSS JOIN unnest(CAST(:id AS uuid[]), CAST(:payload AS bytea[])) WITH ORDINALITY AS i (id, payload, position)
    LEFT JOIN chunks AS k ON k.number = (i.position - 1) / 250
    ORDER BY i.position
    RETURNING seq, chunk
), ready AS (
    INSERT INTO euterpe_ready (chunk, queue, priority, lo, jobs, type, max_attempts, expires_at, ranges)
    SELECT s.chunk, CAST(:queue AS text), CAST(:priority AS smallint), MIN(s.seq), COUNT(*), CAST(:type AS text),
           CAST(:max_attempts AS integer), (SELECT now FROM clock) + CAST(:lifetime_us AS bigint),
           range_agg(int8range(s.seq, s.seq + 1))
    FROM stored AS s WHERE s.chunk IS NOT NULL GROUP BY s.chunk
)
SELECT CASE WHEN due > now THEN 'delayed' ELSE 'scheduled' END, now FROM clock
