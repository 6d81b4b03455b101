-- Settle what completed and claim the next, in one round trip and one commit. Only what needs nothing more: a job with
-- dependents, a callback or a key is left for `settle`; and if one that is next in line has a callback or a key, none is
-- taken here, and `claim` decides. The first four columns are the same in every row: how many were settled, which (only if
-- not all), and whether the line was plain; then comes a job that was taken, or NULLs.
-- At most :limit of those can begin at once; behind them only what can wait is taken, up to the first that cannot.
-- The next are picked first (`settled` asks for `line`), while the snapshot is fresh. What somebody claims after the
-- snapshot still looks free in it: SKIP LOCKED locks the newest version of such a row, finds it taken, and keeps it locked
-- until the commit. Its owner, who is done with it by then, would find it held.
-- The settling update waits for a held row, but no longer than :wait_ms; then the whole statement fails with a lock timeout.
-- The timeout is set when the jobs are picked, and ends with the transaction.
-- Ids and versions come as texts, in order; :results is empty where all have the same :result.
WITH picked AS MATERIALIZED (
    SELECT w.ctid AS at, w.callback_url IS NULL AND w.concurrency_key IS NULL AS plain, w.priority, w.seq,
           {{prefetchable}} AS can_wait
    FROM inbox_jobs AS w
    WHERE {{claimable}}
      AND (CAST(:types AS text[]) IS NULL OR type = ANY (CAST(:types AS text[])))
    ORDER BY priority, seq
    LIMIT CAST(:limit AS integer) + CAST(:prefetch AS integer)
    FOR UPDATE OF w SKIP LOCKED
), placed AS MATERIALIZED (
    SELECT at, plain, can_wait, row_number() OVER (ORDER BY priority, seq) AS place FROM picked
), line AS MATERIALIZED (
    SELECT bool_and(plain) AS plain, MIN(place) FILTER (WHERE place > :limit AND NOT can_wait) AS ends_before
    FROM placed
), settled AS (
    UPDATE inbox_jobs AS j
    SET state = 'completed', result = COALESCE(i.result, :result), error = NULL, completed_at = {{now}},
        lease_expires_at = NULL, updated_at = {{now}}, transitions = j.transitions + 1
    FROM unnest(CAST(string_to_array(:ids, ',') AS uuid[]), CAST(string_to_array(:claim_versions, ',') AS bigint[]),
                CAST(:results AS bytea[]))
        AS i (id, claim_version, result)
    WHERE j.id = i.id AND j.claim_version = i.claim_version AND j.lease_expires_at IS NOT NULL
      AND NOT j.has_dependents AND j.callback_url IS NULL AND j.concurrency_key IS NULL
      AND (SELECT set_config('lock_timeout', CAST(CAST(:wait_ms AS integer) AS text), true) <> '' FROM line)
    RETURNING j.id, j.claim_version
), done AS MATERIALIZED (
    SELECT COUNT(*) AS count,
           CASE WHEN COUNT(*) < CAST(:settling AS integer) THEN array_agg(CAST(id AS text)) END AS ids,
           CASE WHEN COUNT(*) < CAST(:settling AS integer) THEN array_agg(claim_version) END AS versions
    FROM settled
), taken AS (
    UPDATE inbox_jobs AS j
    SET {{claimed}},
        lease_expires_at = {{now}} + LEAST(:lease_ttl_us, j.visibility_us, j.execution_timeout_us + {{overrun}}),
        worker_id = :worker_id, lease_token_hash = NULL
    FROM placed
    WHERE j.ctid = placed.at AND (SELECT plain FROM line)
      AND (placed.place >= (SELECT ends_before FROM line)) IS NOT TRUE
    RETURNING {{taken_columns}}
)
SELECT done.count, done.ids, done.versions, line.plain, j.* FROM done CROSS JOIN line LEFT JOIN taken AS j ON true
