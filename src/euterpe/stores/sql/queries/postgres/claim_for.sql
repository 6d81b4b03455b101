-- Take scheduled jobs of one queue for waiting HTTP workers, the most urgent for the first of them, each with a token of
-- its own, made of :secret and the attempt's name (see `wire_brief.token_of`). If one that is next in line has a
-- callback or a key, none is taken here, and `claim` decides. At most :limit of those can begin at once; behind them only
-- what can wait is taken, up to the first that cannot. None is taken while the queue has chunks (ADR 017):
-- `claim_for_chunks` knows their order. The first two columns are the same in every row: whether the line was plain, and whether
-- there are chunks; then comes a job that was taken, or NULLs. :worker_ids is empty where all places are those of :worker_id.
WITH chunks AS MATERIALIZED (
    SELECT EXISTS (
        SELECT 1 FROM euterpe_ready AS r WHERE {{ready}}) AS are_there
), picked AS MATERIALIZED (
    SELECT w.ctid AS at, w.priority, w.seq, w.callback_url IS NULL AND w.concurrency_key IS NULL AS plain,
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
), taken AS (
    UPDATE inbox_jobs AS j
    SET {{leased_by_token}}
    FROM placed
    WHERE j.ctid = placed.at AND (SELECT plain FROM line)
      AND (placed.place >= (SELECT ends_before FROM line)) IS NOT TRUE
    RETURNING {{job_columns}}
)
SELECT line.plain, chunks.are_there, j.* FROM line CROSS JOIN chunks LEFT JOIN taken AS j ON true
