-- takes: type, type_prefix, queue, skip, state, before
-- returns: seq
-- locks: none
-- As the shared text, by the ways of `found`: as far down as one page looks. What has completed is in no list, so there all jobs count. Of what
-- is scheduled every kind has its share of :skip jobs, and the page ends where the first kind has used its share.
WITH {{waiting_kinds}}, share AS MATERIALIZED (SELECT GREATEST(1, CAST(:skip AS bigint) / GREATEST(1, s.kinds)) AS jobs FROM sought AS s)
(SELECT w.seq FROM inbox_jobs AS w
 WHERE w.listed IS NOT NULL AND (w.listed, w.seq) < (CAST(:state AS text), :before) AND (w.listed, w.seq) >= (CAST(:state AS text), 0)
 ORDER BY w.listed DESC, w.seq DESC LIMIT 1 OFFSET :skip)
UNION ALL
SELECT n.seq - :skip
FROM (SELECT w.seq FROM inbox_jobs AS w WHERE w.seq < :before ORDER BY w.seq DESC LIMIT 1) AS n
WHERE CASE CAST(:state AS text) WHEN 'completed' THEN TRUE WHEN 'scheduled' THEN NOT (SELECT s.all_known FROM sought AS s) END
  AND EXISTS (SELECT 1 FROM inbox_jobs AS w WHERE w.seq <= n.seq - :skip)
UNION ALL
SELECT MAX(e.edge)
FROM (
    SELECT e.edge
    FROM share, lines AS k, LATERAL (
        SELECT r.seq + r.size - 1 - (share.jobs - r.upto + r.size) AS edge
        FROM (SELECT r.seq, r.size, CAST(SUM(r.size) OVER (ORDER BY r.seq DESC ROWS UNBOUNDED PRECEDING) AS bigint) AS upto
              FROM (SELECT r.seq, LEAST(r.seq + r.jobs, :before) - r.seq AS size FROM euterpe_line AS r
                    WHERE {{of_kind}} AND r.rank = 0 AND r.seq < :before
                    ORDER BY r.seq DESC LIMIT share.jobs + 1) AS r) AS r
        WHERE r.upto > share.jobs ORDER BY r.seq DESC LIMIT 1
    ) AS e
    UNION ALL
    SELECT e.seq
    FROM share, keys AS k, LATERAL (SELECT l.seq FROM euterpe_key_line AS l WHERE {{of_own_line}} AND l.seq < :before
                                    ORDER BY l.seq DESC LIMIT 1 OFFSET share.jobs) AS e
) AS e
WHERE CAST(:state AS text) = 'scheduled' AND (SELECT s.all_known FROM sought AS s)
HAVING MAX(e.edge) IS NOT NULL
