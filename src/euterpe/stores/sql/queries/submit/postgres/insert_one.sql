-- takes: id, requester_id, queue, type, stages, priority, payload, payload_format, max_attempts, lifetime_us, execution_timeout_us,
--     visibility_us, retry_policy, tags, correlation_id, callback_url, callback_events, replay_of, run_at, delay_us, channel
-- returns: state, created_at, told
-- locks: waits
-- Store one job without a concurrency key, as `insert_uniform` does many; without arrays it takes Postgres a quarter less. With a :channel,
-- whoever listens there hears of it at this very commit.
WITH entering AS (
INSERT INTO inbox_jobs AS j (id, requester_id, queue, type, state, stages, priority, payload, payload_format,
    max_attempts, run_at, created_at, updated_at, scheduled_at, expires_at, execution_timeout_us, visibility_us,
    retry_policy, tags, correlation_id, callback_url, callback_events, replay_of, listed)
SELECT CAST(:id AS uuid), CAST(:requester_id AS text), CAST(:queue AS text), CAST(:type AS text),
    CASE WHEN clock.due > clock.now THEN 'delayed' ELSE 'scheduled' END,
    CAST(:stages AS text), CAST(:priority AS smallint), CAST(:payload AS bytea), CAST(:payload_format AS text),
    CAST(:max_attempts AS integer), clock.due, clock.now, clock.now,
    CASE WHEN clock.due <= clock.now THEN clock.now END, clock.now + CAST(:lifetime_us AS bigint),
    CAST(:execution_timeout_us AS bigint), CAST(:visibility_us AS bigint), CAST(:retry_policy AS text),
    CAST(:tags AS text), CAST(:correlation_id AS text), CAST(:callback_url AS text), CAST(:callback_events AS text),
    CAST(:replay_of AS uuid), CASE WHEN clock.due > clock.now THEN 'delayed' END
FROM (
    SELECT c.now, COALESCE(CAST(:run_at AS bigint), c.now + CAST(:delay_us AS bigint)) AS due
    FROM (SELECT {{now}} AS now) AS c
) AS clock
RETURNING j.created_at, {{entering_columns}}
), line AS (
    INSERT INTO euterpe_line (queue, type, priority, seq, jobs, expires_at, since, can_wait, tells)
    SELECT j.queue, j.type, j.priority, j.seq, 1, j.expires_at, j.scheduled_at, {{can_wait}}, {{tells}}
    FROM entering AS j WHERE j.state = 'scheduled'
)
SELECT state, created_at,
    CASE WHEN CAST(:channel AS text) IS NOT NULL THEN pg_notify(CAST(:channel AS text), CAST(:queue AS text)) END
FROM entering
