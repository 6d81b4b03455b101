-- A worker tells that it is alive, and that the release which writes this knows chunks (ADR 017).
INSERT INTO euterpe_workers AS w (worker_id, facts, started_at, seen_at, expires_at, knows_chunks)
VALUES (:worker_id, :facts, {{now}} - CAST(:up_us AS BIGINT), {{now}}, {{now}} + CAST(:silence_us AS BIGINT), true)
ON CONFLICT (worker_id) DO UPDATE
SET facts = excluded.facts, seen_at = excluded.seen_at, expires_at = excluded.expires_at, knows_chunks = true
