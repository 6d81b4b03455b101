-- Take up to :limit scheduled jobs of one queue, most urgent first, oldest first inside a priority; behind those, up to :prefetch
-- more that can wait for a moment, up to the first that cannot.
-- A job with a concurrency key can wait while its key is within its limit, as far as this statement sees: it counts among the
-- key's running jobs while it waits, and must not be parked for a place that it takes itself. One of a key with a rate cannot.
-- None is taken while the queue has chunks (ADR 017): `claim_chunks` knows their order.
-- The first column is the same in every row: whether there are chunks; then comes a job that was taken, or NULLs.
-- MATERIALIZED keeps the planner from running the locking select more than once.
WITH chunks AS MATERIALIZED (
    SELECT EXISTS (
        SELECT 1 FROM euterpe_ready AS r WHERE {{ready}}) AS are_there
), picked AS MATERIALIZED (
    SELECT j.id, j.priority, j.seq, {{may_wait}} AS can_wait, {{limit_key}} AS limit_key, j.concurrency_limit
    FROM inbox_jobs AS j
    WHERE {{claimable}} AND NOT (SELECT are_there FROM chunks)
      AND (CAST(:types AS text[]) IS NULL OR type = ANY (CAST(:types AS text[])))
    ORDER BY priority, seq
    LIMIT CAST(:limit AS integer) + CAST(:prefetch AS integer)
    FOR UPDATE OF j SKIP LOCKED
), keys AS MATERIALIZED (
    SELECT jsonb_object_agg(k.name, (SELECT COUNT(*) FROM inbox_jobs AS j
                                     WHERE {{limit_key}} = k.name AND j.concurrency_key IS NOT NULL AND {{key_state}} = 'running')) AS running
    FROM (SELECT DISTINCT limit_key AS name FROM picked WHERE limit_key IS NOT NULL AND CAST(:prefetch AS integer) > 0) AS k
    WHERE NOT EXISTS (SELECT 1 FROM euterpe_key_rates AS r WHERE r.name = k.name)
), placed AS MATERIALIZED (
    SELECT id, row_number() OVER (ORDER BY priority, seq) AS place,
           can_wait AND (limit_key IS NULL OR COALESCE(
               CAST((SELECT running FROM keys) ->> limit_key AS bigint)
                   + row_number() OVER (PARTITION BY limit_key ORDER BY priority, seq) <= concurrency_limit, false)) AS can_wait
    FROM picked
), taken AS (
    UPDATE inbox_jobs AS j
    SET {{leased}}
    FROM placed
    WHERE j.id = placed.id
      AND (placed.place >= (SELECT MIN(place) FROM placed WHERE place > :limit AND NOT can_wait)) IS NOT TRUE
    RETURNING {{job_columns}}
)
SELECT chunks.are_there, j.* FROM chunks LEFT JOIN taken AS j ON true
