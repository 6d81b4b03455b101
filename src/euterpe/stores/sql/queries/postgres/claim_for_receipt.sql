-- As `claim_for_chunks`, for one worker: what is taken out of chunks gets one receipt, and its rows are only read. It has the
-- hashes of as many tokens of :token_hashes as it has numbers, in their order. Lone jobs are claimed onto their rows, with tokens
-- made of :secret. A lease ends with the deadline of its attempt at the latest, and the receipt with the first of them: a chunk
-- knows no such lease, but its jobs were submitted alike.
-- Columns as those of `exchange_chunks`, which settles nothing here; one more before the receipt tells how many of its numbers
-- stand before the first of these neighbours.
WITH wanted AS MATERIALIZED (
    SELECT CAST(:limit AS integer) + CAST(:prefetch AS integer) AS total
), {{chunk_line}}, {{chunk_cut}}, part AS MATERIALIZED (
    SELECT p.chunk, p.expires_at, x,
           COALESCE((SELECT LEAST(w.visibility_us, w.execution_timeout_us) FROM inbox_jobs AS w
                     WHERE w.indexed_state = 'completed' AND w.seq = lower(x)), p.lease_us) AS lease_us,
           CAST(SUM(upper(x) - lower(x)) OVER (ORDER BY lower(x)) - upper(x) + lower(x) AS integer) AS before
    FROM piece AS p, unnest(p.taken) AS x
), receipt AS (
    INSERT INTO euterpe_claims (worker_id, claimed_at, lease_ttl_us, expires_at, jobs_expire_at, ranges, token_hashes)
    SELECT :worker_id, {{now}}, :lease_ttl_us, {{now}} + LEAST(:lease_ttl_us, MIN(p.lease_us)),
           MIN(p.expires_at), range_agg(p.x),
           substring(CAST(:token_hashes AS bytea) FROM 1 FOR CAST(32 * SUM(upper(p.x) - lower(p.x)) AS integer))
    FROM part AS p HAVING COUNT(*) > 0
    RETURNING receipt
), claimed AS (
    UPDATE inbox_jobs AS j
    SET {{leased_by_token}}
    FROM (SELECT at, 1 AS place FROM front WHERE at IS NOT NULL) AS placed
    WHERE j.ctid = placed.at
    RETURNING {{taken_columns}}, CAST(NULL AS integer), CAST(NULL AS bigint), CAST(NULL AS bigint), CAST(NULL AS record)
), taken AS (
    SELECT * FROM claimed
    UNION ALL
    SELECT {{neighbour_columns}}, p.before, (SELECT receipt FROM receipt), lower(x),
           CASE WHEN j.seq = lower(x) THEN ROW({{received_columns}}) END
    FROM part AS p, {{plain_in}}
    WHERE j.chunk = p.chunk
)
SELECT 0, NULL, NULL, line.plain, {{chunks_left}}, j.*
FROM line LEFT JOIN taken AS j ON true
