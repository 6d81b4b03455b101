-- As `claim`, for jobs most of which have concurrency keys. What `running_by_key`, `park` and the rest do there one after the other is here one
-- statement, for keys whose locks this transaction held before it: its snapshot shows all that others have claimed under them.
-- :keys has the keys that were asked for before: true, if they are locked, and false, if somebody else had them; their jobs are passed over.
-- If one that is next in line has another key, that is locked here, and nothing is taken. Nor is anything taken if one of :freed, of which
-- jobs have just ended, has parked jobs: they are in the line when these go. Nor if the queue has chunks (ADR 017), a key has a rate, or its jobs
-- have several limits: `claim` knows what to do.
-- Of a key at its limit, what is among the first :limit is parked; behind these it ends the line.
-- The first five columns are the same in every row: whether `claim` is not needed, the freed keys with parked jobs, the keys that were asked for, and whether they are
-- locked (NULL: all were known), those at their limit, and how many were looked at; then comes a job that was taken, or NULLs, and its key and limit.
WITH parked AS MATERIALIZED (
    SELECT array_agg(k.name) AS names FROM unnest(CAST(:freed AS text[])) AS k (name)
    WHERE EXISTS (SELECT 1 FROM inbox_jobs AS j WHERE {{limit_key}} = k.name AND j.parked)
), chunks AS MATERIALIZED (
    SELECT EXISTS (SELECT 1 FROM euterpe_ready AS r WHERE {{ready}}) AS are_there
), picked AS MATERIALIZED (
    SELECT j.ctid AS at, j.priority, j.seq, {{may_wait}} AS can_wait, {{limit_key}} AS limit_key, j.concurrency_limit
    FROM inbox_jobs AS j
    WHERE {{claimable}} AND NOT (SELECT are_there FROM chunks) AND (SELECT names IS NULL FROM parked)
      AND (CAST(:types AS text[]) IS NULL OR type = ANY (CAST(:types AS text[])))
    ORDER BY priority, seq
    LIMIT CAST(:limit AS integer) + CAST(:prefetch AS integer)
    FOR UPDATE OF j SKIP LOCKED
), keys AS MATERIALIZED (
    SELECT limit_key AS key, CAST(CAST(:keys AS jsonb) ->> limit_key AS boolean) AS is_held,
           MIN(concurrency_limit) IS DISTINCT FROM MAX(concurrency_limit) OR COUNT(concurrency_limit) < COUNT(*)
           OR EXISTS (SELECT 1 FROM euterpe_key_rates AS r WHERE r.name = limit_key) AS is_odd
    FROM picked WHERE limit_key IS NOT NULL GROUP BY limit_key
), simple AS MATERIALIZED (
    SELECT NOT (SELECT are_there FROM chunks) AND NOT EXISTS (SELECT 1 FROM keys WHERE is_odd) AS is_all
), locked AS MATERIALIZED (
    SELECT CAST(jsonb_object_agg(key, CASE WHEN :may_wait THEN pg_advisory_xact_lock({{key_lock}}) IS NOT NULL
                                           ELSE pg_try_advisory_xact_lock({{key_lock}}) END) AS text) AS keys
    FROM (SELECT key FROM keys WHERE is_held IS NULL AND (SELECT is_all FROM simple) ORDER BY key) AS asked
), running AS MATERIALIZED (
    SELECT jsonb_object_agg(k.key, (SELECT COUNT(*) FROM inbox_jobs AS j
                                    WHERE {{limit_key}} = k.key AND j.concurrency_key IS NOT NULL
                                      AND {{key_state}} = 'running')) AS jobs
    FROM keys AS k
    WHERE k.is_held AND (SELECT is_all FROM simple) AND (SELECT keys IS NULL FROM locked)
), placed AS MATERIALIZED (
    SELECT at, can_wait, limit_key, row_number() OVER (ORDER BY priority, seq) AS place,
           limit_key IS NULL OR CAST((SELECT jobs FROM running) ->> limit_key AS bigint)
               + row_number() OVER (PARTITION BY limit_key ORDER BY priority, seq) <= concurrency_limit AS fits
    FROM picked
    WHERE (SELECT is_all FROM simple) AND (SELECT keys IS NULL FROM locked)
      AND (limit_key IS NULL OR (SELECT jobs FROM running) ? limit_key)
), line AS MATERIALIZED (
    SELECT COALESCE(MIN(place) FILTER (WHERE place > :limit AND NOT (can_wait AND fits)), 1000000000) AS ends_before FROM placed
), taken AS (
    UPDATE inbox_jobs AS j
    SET {{leased}}
    FROM placed
    WHERE j.ctid = placed.at AND placed.fits AND placed.place < (SELECT ends_before FROM line)
    RETURNING {{taken_columns}}, j.concurrency_key, j.concurrency_limit
), over AS (
    UPDATE inbox_jobs AS j
    SET parked = TRUE
    FROM placed
    WHERE j.ctid = placed.at AND NOT placed.fits AND placed.place <= :limit
    RETURNING {{limit_key}} AS limit_key
)
SELECT simple.is_all, parked.names, locked.keys, (SELECT array_agg(DISTINCT limit_key) FROM over), (SELECT COUNT(*) FROM picked), j.*
FROM simple CROSS JOIN parked CROSS JOIN locked LEFT JOIN taken AS j ON true
