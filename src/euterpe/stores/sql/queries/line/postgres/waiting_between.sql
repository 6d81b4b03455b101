-- The numbers of the jobs that wait between :down_to and :before.
WITH {{waiting_kinds}}
SELECT g.seq
FROM sought AS s, lines AS k, LATERAL (SELECT r.seq, r.jobs FROM euterpe_line AS r
                                       WHERE {{of_kind}} AND r.rank = 0
                                         AND r.seq < :before AND r.seq > CAST(:down_to AS bigint) - 250) AS r,
     LATERAL generate_series(GREATEST(r.seq, :down_to), LEAST(r.seq + r.jobs, :before) - 1) AS g (seq)
WHERE s.all_known
UNION ALL
SELECT l.seq
FROM sought AS s, keys AS k, LATERAL (SELECT l.seq FROM euterpe_key_line AS l
                                      WHERE {{of_own_line}} AND l.seq < :before AND l.seq >= :down_to) AS l
WHERE s.all_known
UNION ALL
SELECT v.seq FROM sought AS s, LATERAL (SELECT v.seq FROM inbox_jobs AS v WHERE v.seq < :before AND v.seq >= :down_to AND v.state = 'scheduled') AS v
WHERE NOT s.all_known
