-- takes: worker_id, facts, up_us, silence_us
-- returns: nothing
-- locks: waits
-- A worker tells that it is alive.
INSERT INTO euterpe_workers AS w (worker_id, facts, started_at, seen_at, expires_at)
VALUES (:worker_id, :facts, {{now}} - CAST(:up_us AS BIGINT), {{now}}, {{now}} + CAST(:silence_us AS BIGINT))
ON CONFLICT (worker_id) DO UPDATE
SET facts = excluded.facts, seen_at = excluded.seen_at, expires_at = excluded.expires_at
