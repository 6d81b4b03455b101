SELECT u.*
FROM (
    (SELECT {{newest_columns}} FROM inbox_jobs AS w
     WHERE w.indexed_state = s.state AND s.state <> 'completed' ORDER BY w.seq DESC LIMIT :limit)
    UNION ALL
    (SELECT f.*
     FROM (SELECT x FROM unnest({{plain_ranges}}) AS x ORDER BY x DESC) AS p,
     LATERAL (SELECT {{newest_columns}} FROM inbox_jobs AS w
              WHERE {{within}} AND w.state || '' = s.state ORDER BY w.seq DESC LIMIT :limit) AS f
     LIMIT :limit)
) AS u
ORDER BY u.seq DESC LIMIT :limit
