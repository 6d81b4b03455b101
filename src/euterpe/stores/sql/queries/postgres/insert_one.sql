-- Store one job, as `insert_uniform` does many; without arrays it takes Postgres a quarter less. With a :channel, whoever
-- listens there hears of it at this very commit.
WITH clock AS MATERIALIZED (
    SELECT c.now, COALESCE(CAST(:run_at AS bigint), c.now + CAST(:delay_us AS bigint)) AS due,
           COALESCE(CAST(:run_at AS bigint), c.now + CAST(:delay_us AS bigint)) <= c.now
               AND CAST(:callback_url AS text) IS NULL AND CAST(:concurrency_key AS text) IS NULL
               AND CAST(:stages AS text) IS NULL AS plain
    FROM (SELECT {{now}} AS now) AS c
), stored AS (
INSERT INTO inbox_jobs (id, requester_id, queue, type, state, stages, priority, payload, payload_format,
    max_attempts, run_at, created_at, updated_at, scheduled_at, expires_at, execution_timeout_us, visibility_us,
    retry_policy, tags, correlation_id, callback_url, callback_events, replay_of, concurrency_key, concurrency_limit, chunk, parked)
SELECT CAST(:id AS uuid), CAST(:requester_id AS text), CAST(:queue AS text), CAST(:type AS text),
    CASE WHEN clock.due > clock.now THEN 'delayed' ELSE 'scheduled' END,
    CAST(:stages AS text), CAST(:priority AS smallint), CAST(:payload AS bytea), CAST(:payload_format AS text),
    CAST(:max_attempts AS integer), clock.due, clock.now, clock.now,
    CASE WHEN clock.due <= clock.now THEN clock.now END, clock.now + CAST(:lifetime_us AS bigint),
    CAST(:execution_timeout_us AS bigint), CAST(:visibility_us AS bigint), CAST(:retry_policy AS text),
    CAST(:tags AS text), CAST(:correlation_id AS text), CAST(:callback_url AS text), CAST(:callback_events AS text),
    CAST(:replay_of AS uuid), CAST(:concurrency_key AS text), CAST(:concurrency_limit AS integer),
    CASE WHEN clock.plain THEN nextval('euterpe_chunks') END, clock.plain
FROM clock
RETURNING seq, state, created_at, expires_at, chunk
), ready AS (
    INSERT INTO euterpe_ready (chunk, queue, priority, lo, jobs, type, max_attempts, expires_at, ranges)
    SELECT s.chunk, CAST(:queue AS text), CAST(:priority AS smallint), s.seq, 1, CAST(:type AS text),
           CAST(:max_attempts AS integer), s.expires_at, int8multirange(int8range(s.seq, s.seq + 1))
    FROM stored AS s WHERE s.chunk IS NOT NULL
)
SELECT state, created_at,
    CASE WHEN CAST(:channel AS text) IS NOT NULL THEN pg_notify(CAST(:channel AS text), CAST(:queue AS text)) END
FROM stored
