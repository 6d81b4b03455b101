-- WIP of ADR 017: settle what completed and claim the next, out of chunks under one receipt and out of the claim index, in one order.
WITH head AS MATERIALIZED (
    SELECT r.chunk, r.priority, r.lo, r.ranges, r.jobs,
           r.max_attempts > 1 AND r.type {{in prefetch_types text}} AS can_wait
    FROM euterpe_ready AS r
    WHERE r.queue = :queue AND CAST(:limit AS integer) > 0
      AND r.type NOT IN (SELECT name FROM euterpe_pauses WHERE kind = 'type')
      AND NOT EXISTS (SELECT 1 FROM euterpe_pauses WHERE kind = 'queue' AND name = :queue)
      AND r.expires_at > {{now}}
      AND (CAST(:types AS text[]) IS NULL OR r.type = ANY (CAST(:types AS text[])))
    ORDER BY r.priority, r.lo
    LIMIT :chunks
    FOR UPDATE OF r SKIP LOCKED
), picked AS MATERIALIZED (
    SELECT w.id, w.callback_url IS NULL AND w.concurrency_key IS NULL AS plain, w.priority, w.seq,
           {{prefetchable}} AS can_wait
    FROM inbox_jobs AS w
    WHERE {{claimable}}
      AND (CAST(:types AS text[]) IS NULL OR type = ANY (CAST(:types AS text[])))
    ORDER BY priority, seq
    LIMIT CAST(:limit AS integer) + CAST(:prefetch AS integer)
    FOR UPDATE OF w SKIP LOCKED
), merged AS MATERIALIZED (
    SELECT id, CAST(NULL AS bigint) AS chunk, plain, can_wait, seq, priority FROM picked
    UNION ALL
    SELECT NULL, h.chunk, true, h.can_wait, s.seq, h.priority
    FROM head AS h, unnest(h.ranges) AS x, generate_series(lower(x), upper(x) - 1) AS s (seq)
), placed AS MATERIALIZED (
    SELECT *, row_number() OVER (ORDER BY priority, seq) AS place FROM merged
), line AS MATERIALIZED (
    SELECT COALESCE(bool_and(plain), true) AS plain, MIN(place) FILTER (WHERE place > :limit AND NOT can_wait) AS ends_before
    FROM placed WHERE place <= CAST(:limit AS integer) + CAST(:prefetch AS integer)
), front AS MATERIALIZED (
    SELECT p.id, p.chunk, p.seq FROM placed AS p, line
    WHERE p.place <= CAST(:limit AS integer) + CAST(:prefetch AS integer) AND line.plain
      AND (p.place >= line.ends_before) IS NOT TRUE
), plan AS MATERIALIZED (
    SELECT f.chunk, h.ranges, h.jobs, f.n, CASE WHEN f.n < h.jobs THEN f.last + 1 END AS cut
    FROM (SELECT chunk, COUNT(*) AS n, MAX(seq) AS last FROM front WHERE chunk IS NOT NULL GROUP BY chunk) AS f
    JOIN head AS h ON h.chunk = f.chunk
), settled AS (
    UPDATE inbox_jobs AS j
    SET state = 'completed', result = COALESCE(i.result, :result), error = NULL, completed_at = {{now}},
        lease_expires_at = NULL, updated_at = {{now}},
        transitions = j.transitions + CASE WHEN j.lease_expires_at IS NULL THEN 2 ELSE 1 END,
        claim_version = i.claim_version, attempt_count = CASE WHEN j.lease_expires_at IS NULL THEN 1 ELSE j.attempt_count END,
        stage = COALESCE(j.stage, 'claimed'), worker_id = COALESCE(j.worker_id, :worker_id),
        started_at = COALESCE(j.started_at, i.started_at), heartbeat_at = COALESCE(j.heartbeat_at, i.started_at)
    FROM unnest(CAST(string_to_array(:ids, ',') AS uuid[]), CAST(string_to_array(:claim_versions, ',') AS bigint[]),
                CAST(string_to_array(:started, ',') AS bigint[]), CAST(:results AS bytea[]))
        AS i (id, claim_version, started_at, result)
    WHERE j.id = i.id
      AND ((i.claim_version = 1 AND j.chunk IS NOT NULL AND j.state = 'scheduled')
           OR (j.claim_version = i.claim_version AND j.lease_expires_at IS NOT NULL))
      AND NOT j.has_dependents AND j.callback_url IS NULL AND j.concurrency_key IS NULL
      AND (SELECT set_config('lock_timeout', CAST(CAST(:wait_ms AS integer) AS text), true) <> '' FROM line)
    RETURNING j.id, j.claim_version
), done AS MATERIALIZED (
    SELECT COUNT(*) AS count,
           CASE WHEN COUNT(*) < CAST(:settling AS integer) THEN array_agg(CAST(id AS text)) END AS ids,
           CASE WHEN COUNT(*) < CAST(:settling AS integer) THEN array_agg(claim_version) END AS versions
    FROM settled
), gone AS (
    DELETE FROM euterpe_ready AS r USING plan AS p WHERE r.chunk = p.chunk AND p.cut IS NULL RETURNING r.ranges
), shortened AS (
    UPDATE euterpe_ready AS r
    SET ranges = p.ranges * int8multirange(int8range(p.cut, NULL)), lo = p.cut, jobs = p.jobs - p.n
    FROM plan AS p WHERE r.chunk = p.chunk AND p.cut IS NOT NULL
    RETURNING p.ranges * int8multirange(int8range(NULL, p.cut)) AS ranges
), piece AS MATERIALIZED (
    SELECT ranges FROM gone UNION ALL SELECT ranges FROM shortened
), receipt AS (
    INSERT INTO euterpe_claims (worker_id, claimed_at, lease_expires_at, ranges)
    SELECT :worker_id, {{now}}, {{now}} + :lease_ttl_us, range_agg(ranges) FROM piece HAVING COUNT(*) > 0
    RETURNING receipt
), from_rows AS (
    UPDATE inbox_jobs AS j
    SET {{claimed}},
        lease_expires_at = {{now}} + LEAST(:lease_ttl_us, j.visibility_us, j.execution_timeout_us + {{overrun}}),
        worker_id = :worker_id, lease_token_hash = NULL
    FROM front
    WHERE j.id = front.id
    RETURNING {{taken_columns}}, false AS by_receipt
), taken AS (
    SELECT * FROM from_rows
    UNION ALL
    SELECT j.seq, CAST(j.id AS TEXT), j.requester_id, j.queue, j.type, j.priority, j.payload, j.payload_format,
        1, j.max_attempts, j.release_count, CAST(1 AS bigint), j.run_at, j.created_at, j.scheduled_at,
        {{now}}, j.expires_at, j.execution_timeout_us, j.visibility_us, j.retry_policy, j.stages, j.error,
        j.checkpoint, j.tags, j.correlation_id, j.callback_events, j.idempotency_key, j.dependency, j.depth,
        j.has_dependents, CAST(j.parent_id AS TEXT), CAST(j.replay_of AS TEXT), j.cancel_version, j.transitions + 1, true
    FROM piece, unnest(piece.ranges) AS x,
    LATERAL (SELECT * FROM inbox_jobs AS w
             WHERE w.state = 'scheduled' AND w.seq >= lower(x) AND w.seq < upper(x) AND w.chunk IS NOT NULL OFFSET 0) AS j
)
SELECT done.count, done.ids, done.versions, line.plain, (SELECT receipt FROM receipt), (SELECT COUNT(*) FROM plan), j.*
FROM done CROSS JOIN line LEFT JOIN taken AS j ON true
