-- Settle what completed and claim the next, in one round trip and one commit. Only what needs nothing more: a job with
-- dependents, a callback or a key is left for `settle`; and if one that is next in line has a key, or a callback for more than
-- its end, none is taken here, and `claim` decides. Nor is any while the queue has chunks (ADR 017): `exchange_chunks` knows their order. The first
-- five columns are the same in every row: how many were settled, which (only if not all), whether the line was plain, and
-- whether there are chunks; then comes a job that was taken, or NULLs.
-- At most :limit of those can begin at once; behind them only what can wait is taken, up to the first that cannot.
-- The next are picked first (`settled` asks for `line`), while the snapshot is fresh. What somebody claims after the
-- snapshot still looks free in it: SKIP LOCKED locks the newest version of such a row, finds it taken, and keeps it locked
-- until the commit. Its owner, who is done with it by then, would find it held.
-- The settling update waits for a held row, but no longer than :wait_ms; then the whole statement fails with a lock timeout.
-- The timeout is set when the jobs are picked, and ends with the transaction.
-- Ids and versions come as texts, in order; :results is empty where all have the same :result.
WITH chunks AS MATERIALIZED (
    SELECT CAST(:limit AS integer) + CAST(:prefetch AS integer) > 0 AND EXISTS (
        SELECT 1 FROM euterpe_ready AS r WHERE {{ready}}) AS are_there
), picked AS MATERIALIZED (
    SELECT w.ctid AS at, {{plain}} AS plain, w.priority, w.seq,
           {{prefetchable}} AS can_wait
    FROM inbox_jobs AS w
    WHERE {{claimable}} AND NOT (SELECT are_there FROM chunks)
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
), {{settled_count}}, taken AS (
    UPDATE inbox_jobs AS j
    SET {{leased}}
    FROM placed
    WHERE j.ctid = placed.at AND (SELECT plain FROM line)
      AND (placed.place >= (SELECT ends_before FROM line)) IS NOT TRUE
    RETURNING {{taken_columns}}
)
SELECT done.count, done.ids, done.versions, line.plain, chunks.are_there, j.*
FROM done CROSS JOIN line CROSS JOIN chunks LEFT JOIN taken AS j ON true
