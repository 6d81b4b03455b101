(SELECT * FROM inbox_jobs AS w
             WHERE w.indexed_state = s.state AND s.state <> 'completed' AND w.seq < :before AND w.seq >= :down_to
              AND {{search_filters}}
             ORDER BY w.seq DESC LIMIT :limit)
            UNION ALL
            (SELECT f.*
             FROM (SELECT x FROM unnest(({{plain_ranges}}) * int8multirange(int8range(:down_to, :before))) AS x
                   ORDER BY x DESC) AS p,
             LATERAL (SELECT * FROM inbox_jobs AS w
                      WHERE {{within}} AND w.state || '' = s.state
              AND {{search_filters}}
                      ORDER BY w.seq DESC LIMIT :limit) AS f
             LIMIT :limit)
