-- As the shared text. Jobs of chunks and receipts are told apart by their places alone: what a receipt still names counts as of
-- either state.
SELECT e.seq
FROM (SELECT CAST(:state AS text) AS state) AS s, LATERAL (
    (SELECT w.seq FROM inbox_jobs AS w
     WHERE w.indexed_state = s.state AND s.state <> 'completed' AND w.seq < :before ORDER BY w.seq DESC LIMIT :skip + 1)
    UNION ALL
    (SELECT f.seq
     FROM (SELECT x FROM unnest(({{plain_ranges}}) * int8multirange(int8range(0, :before))) AS x ORDER BY x DESC) AS p,
     LATERAL (SELECT w.seq FROM inbox_jobs AS w WHERE {{within}} ORDER BY w.seq DESC LIMIT :skip + 1) AS f
     LIMIT :skip + 1)
) AS e
ORDER BY e.seq DESC LIMIT 1 OFFSET :skip
