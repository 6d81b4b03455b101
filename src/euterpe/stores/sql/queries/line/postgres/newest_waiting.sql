-- The numbers of the newest jobs that wait, of every kind its share of :limit.
WITH lines AS MATERIALIZED (SELECT k.* FROM {{line_kinds}} AS k), keys AS MATERIALIZED (SELECT k.* FROM {{own_lines}} AS k),
share AS MATERIALIZED (SELECT GREATEST(100, CAST(:limit AS bigint) / ((SELECT COUNT(*) FROM lines) + (SELECT COUNT(*) FROM keys) + 1)) AS jobs)
SELECT g.seq
FROM share, lines AS k, LATERAL (
    SELECT g.seq
    FROM (SELECT r.seq, r.jobs FROM euterpe_line AS r WHERE {{of_kind}}
          ORDER BY r.rank DESC, r.seq DESC LIMIT share.jobs) AS r, LATERAL generate_series(r.seq + r.jobs - 1, r.seq, -1) AS g (seq)
    LIMIT share.jobs
) AS g
UNION ALL
SELECT l.seq
FROM share, keys AS k, LATERAL (SELECT l.seq FROM euterpe_key_line AS l WHERE {{of_own_line}}
                                ORDER BY l.seq DESC LIMIT share.jobs) AS l
