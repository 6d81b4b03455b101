SELECT u.*
FROM (
    (SELECT {{newest_columns}} FROM inbox_jobs AS w
     WHERE w.listed IS NOT NULL AND (w.listed, w.seq) > (s.state, 0) AND w.listed <= s.state ORDER BY w.listed DESC, w.seq DESC LIMIT :limit)
    UNION ALL
    (SELECT {{newest_columns}} FROM inbox_jobs AS w
     WHERE s.state = 'running' AND w.seq = ANY (ARRAY({{running_seqs}})) AND w.lease_expires_at IS NOT NULL ORDER BY w.seq DESC LIMIT :limit)
    UNION ALL
    (SELECT {{newest_columns}} FROM inbox_jobs AS w
     WHERE s.state = 'scheduled' AND w.seq = ANY (ARRAY({{newest_waiting}})) AND w.state = 'scheduled' ORDER BY w.seq DESC LIMIT :limit)
    UNION ALL
    (SELECT {{newest_columns}}
     FROM (SELECT p.place, LEAD(p.place, 1, CAST(0 AS bigint)) OVER (ORDER BY p.place DESC) AS below FROM {{places}} AS p) AS p,
          LATERAL (SELECT * FROM inbox_jobs AS v WHERE v.seq < p.place AND v.seq >= p.below ORDER BY v.seq DESC LIMIT 2 * :limit + 1000) AS w
     WHERE s.state = 'completed' AND w.state = 'completed' LIMIT :limit)
) AS u
ORDER BY u.seq DESC LIMIT :limit
