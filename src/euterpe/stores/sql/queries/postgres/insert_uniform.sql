-- Store jobs that differ in nothing but their id and payload, in the order given.
-- A plain lot (:chunked) waits in chunks (ADR 017), as long as no worker of an older release, which knows none, is alive.
-- Whether they are delayed or ready is decided by the database's clock, for all of them at once.
WITH clock AS MATERIALIZED (
    SELECT c.now, COALESCE(CAST(:run_at AS bigint), c.now + CAST(:delay_us AS bigint)) AS due
    FROM (SELECT {{now}} AS now) AS c
), lot AS MATERIALIZED (
    SELECT clock.*, CAST(:chunked AS boolean) AND clock.due <= clock.now
                    AND NOT EXISTS (SELECT 1 FROM euterpe_workers AS w WHERE NOT w.knows_chunks AND w.expires_at > {{now}}) AS chunked
    FROM clock
), stored AS (
    INSERT INTO inbox_jobs (id, requester_id, queue, type, state, stages, priority, payload, payload_format,
        max_attempts, run_at, created_at, updated_at, scheduled_at, expires_at, execution_timeout_us, visibility_us,
        retry_policy, tags, correlation_id, callback_url, callback_events, replay_of, concurrency_key,
        concurrency_limit, chunk, parked)
    SELECT i.id, CAST(:requester_id AS text), CAST(:queue AS text), CAST(:type AS text),
        CASE WHEN lot.due > lot.now THEN 'delayed' ELSE 'scheduled' END,
        CAST(:stages AS text), CAST(:priority AS smallint), i.payload, CAST(:payload_format AS text),
        CAST(:max_attempts AS integer), lot.due, lot.now, lot.now,
        CASE WHEN lot.due <= lot.now THEN lot.now END, lot.now + CAST(:lifetime_us AS bigint),
        CAST(:execution_timeout_us AS bigint), CAST(:visibility_us AS bigint), CAST(:retry_policy AS text),
        CAST(:tags AS text), CAST(:correlation_id AS text), CAST(:callback_url AS text),
        CAST(:callback_events AS text), CAST(:replay_of AS uuid), CAST(:concurrency_key AS text),
        CAST(:concurrency_limit AS integer),
        CASE WHEN lot.chunked THEN (CAST(:id AS uuid[]))[CAST(i.position - (i.position - 1) % 250 AS integer)] END, lot.chunked
    FROM lot, unnest(CAST(:id AS uuid[]), CAST(:payload AS bytea[])) WITH ORDINALITY AS i (id, payload, position)
    ORDER BY i.position
    RETURNING seq, chunk
), ready AS (
    INSERT INTO euterpe_ready (chunk, queue, type, priority, lo, expires_at, lease_us, waiting_since, jobs, ranges)
    SELECT s.chunk, CAST(:queue AS text), CAST(:type AS text), CAST(:priority AS smallint), MIN(s.seq),
           lot.now + CAST(:lifetime_us AS bigint),
           LEAST(CAST(:visibility_us AS bigint), CAST(:execution_timeout_us AS bigint) + {{overrun}}), lot.now,
           COUNT(*), range_agg(int8range(s.seq, s.seq + 1))
    FROM lot, stored AS s WHERE s.chunk IS NOT NULL GROUP BY s.chunk, lot.now
)
SELECT CASE WHEN due > now THEN 'delayed' ELSE 'scheduled' END, now FROM clock
