-- As `exchange`, for a queue that has chunks, or for completions of jobs that run under receipts (ADR 017): jobs of chunks and of
-- the claim index are merged in one order. What is taken out of chunks gets one receipt, and its rows are only read.
-- Rows are settled before a chunk is locked: who converts a job holds its row and waits for its chunk.
-- A chunk's jobs are taken from its front, by what its newest version has: `head` is locked, the snapshot may be older.
-- :with_callbacks: the jobs whose claims have a callback. While they are under receipts, their events are written next, in the same transaction: such a job is
-- as its submit left it, so its claim tells all that its event says. What is on its row by now, perhaps without a callback, is left.
-- The first five columns are the same in every row: those of `exchange`, and whether chunks are left; then comes a
-- job that was taken, or NULLs. Behind it, for a job of a chunk: its receipt, the number of the first of its neighbours, and
-- all columns of that one, in its row alone. Neighbours differ in `neighbour_columns`: jobs of a chunk were submitted alike.
WITH settled AS (
    UPDATE inbox_jobs AS j
    SET state = 'completed', result = COALESCE(i.result, :result), error = NULL, completed_at = {{now}},
        lease_expires_at = NULL, updated_at = {{now}}, claim_version = i.claim_version,
        transitions = j.transitions + CASE WHEN j.chunk IS NULL THEN 1 ELSE 2 END,
        attempt_count = CASE WHEN j.chunk IS NULL THEN j.attempt_count ELSE 1 END,
        stage = CASE WHEN j.chunk IS NULL THEN j.stage ELSE 'claimed' END,
        worker_id = CASE WHEN j.chunk IS NULL THEN j.worker_id ELSE :settled_by END,
        started_at = CASE WHEN j.chunk IS NULL THEN j.started_at ELSE i.started_at END,
        heartbeat_at = CASE WHEN j.chunk IS NULL THEN j.heartbeat_at ELSE i.started_at END
    FROM unnest(CAST(string_to_array(:ids, ',') AS uuid[]), CAST(string_to_array(:claim_versions, ',') AS bigint[]),
                CAST(string_to_array(:started, ',') AS bigint[]), CAST(:results AS bytea[]))
        AS i (id, claim_version, started_at, result)
    WHERE j.id = i.id
      AND ((j.claim_version = i.claim_version AND j.lease_expires_at IS NOT NULL)
           OR (i.claim_version = 1 AND j.chunk IS NOT NULL AND j.state || '' = 'scheduled'))
      AND NOT j.has_dependents AND j.concurrency_key IS NULL
      AND CASE WHEN j.chunk IS NULL THEN j.callback_url IS NULL AND j.id <> ALL (CAST(string_to_array(:with_callbacks, ',') AS uuid[]))
               ELSE j.callback_url IS NULL OR :with_callbacks <> '' END
      AND (SELECT set_config('lock_timeout', CAST(CAST(:wait_ms AS integer) AS text), true) <> '')
    RETURNING j.id, j.claim_version
), {{settled_count}}, wanted AS MATERIALIZED (
    SELECT CAST(:limit AS integer) + CAST(:prefetch AS integer) AS total FROM done
), {{chunk_line}}, {{chunk_cut}}, receipt AS (
    INSERT INTO euterpe_claims (worker_id, claimed_at, lease_ttl_us, expires_at, jobs_expire_at, ranges)
    SELECT :worker_id, {{now}}, :lease_ttl_us, {{now}} + LEAST(:lease_ttl_us, MIN(p.lease_us)), MIN(p.expires_at), range_agg(x)
    FROM piece AS p, unnest(p.taken) AS x HAVING COUNT(*) > 0
    RETURNING receipt
), claimed AS (
    UPDATE inbox_jobs AS j
    SET {{leased}}
    FROM front
    WHERE j.ctid = front.at
    RETURNING {{taken_columns}}, CAST(NULL AS bigint), CAST(NULL AS bigint), CAST(NULL AS record)
), taken AS (
    SELECT * FROM claimed
    UNION ALL
    SELECT {{neighbour_columns}}, (SELECT receipt FROM receipt), lower(x),
           CASE WHEN j.seq = lower(x) THEN ROW({{received_columns}}) END
    FROM piece AS p, unnest(p.taken) AS x, {{plain_in}}
    WHERE j.chunk = p.chunk
)
SELECT done.count, done.ids, done.versions, line.plain,
       {{chunks_left}}, j.*
FROM done CROSS JOIN line LEFT JOIN taken AS j ON true
