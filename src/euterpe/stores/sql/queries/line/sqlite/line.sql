-- What a claim of :queue takes next, in the order of the line. The lines of the types in `asked` are merged: a job brings the next one of its line, and the
-- first one of a key's line that of the next key. A line that is alone is read along its index.
-- Without a LIMIT, older SQLites leave the order out, because a join follows.
starts (priority, seq, type, name, running, tokens, is_front) AS MATERIALIZED (
    SELECT NULL, (SELECT x.seq FROM inbox_jobs AS x INDEXED BY inbox_jobs_line
                  WHERE x.line = '' AND x.queue = :queue AND x.type = a.type AND x.state || '' = 'scheduled'
                  ORDER BY x.priority, x.seq LIMIT 1) AS first, a.type, '', NULL, NULL, FALSE
    FROM asked AS a WHERE first IS NOT NULL
    UNION ALL
    SELECT f.priority, f.seq, f.type, f.name, {{running}}, (SELECT {{tokens}} FROM euterpe_key_rates AS r WHERE r.name = f.name), TRUE
    FROM asked AS a
    CROSS JOIN euterpe_key_fronts AS f ON f.seq = (SELECT x.seq FROM euterpe_key_fronts AS x WHERE x.queue = :queue AND x.type = a.type
                                                   ORDER BY x.priority, x.seq LIMIT 1)
), merged (priority, seq, type, name, running, tokens, is_front) AS (
    SELECT j.priority, j.seq, s.type, s.name, s.running, s.tokens, s.is_front
    FROM starts AS s CROSS JOIN inbox_jobs AS j ON j.seq = s.seq WHERE (SELECT COUNT(*) > 1 OR MAX(is_front) FROM starts)
    UNION ALL
    SELECT n.priority, n.seq, l.type, l.name, l.running + 1, l.tokens - 1, FALSE
    FROM merged AS l
    CROSS JOIN inbox_jobs AS n ON n.seq = COALESCE(
        (SELECT x.seq FROM inbox_jobs AS x INDEXED BY inbox_jobs_line
         WHERE x.line = l.name AND x.queue = :queue AND x.type = l.type AND x.state || '' = 'scheduled'
           AND x.priority = l.priority AND x.seq > l.seq ORDER BY x.seq LIMIT 1),
        (SELECT x.seq FROM inbox_jobs AS x INDEXED BY inbox_jobs_line
         WHERE x.line = l.name AND x.queue = :queue AND x.type = l.type AND x.state || '' = 'scheduled'
           AND x.priority > l.priority ORDER BY x.priority, x.seq LIMIT 1))
    WHERE (l.running + 1 >= n.concurrency_limit) IS NOT TRUE AND (l.tokens <= 1) IS NOT TRUE
    UNION ALL
    SELECT f.priority, f.seq, f.type, f.name, {{running}}, (SELECT {{tokens}} FROM euterpe_key_rates AS r WHERE r.name = f.name), TRUE
    FROM merged AS l
    CROSS JOIN euterpe_key_fronts AS f ON f.seq = COALESCE(
        (SELECT x.seq FROM euterpe_key_fronts AS x
         WHERE x.queue = :queue AND x.type = l.type AND x.priority = l.priority AND x.seq > l.seq ORDER BY x.seq LIMIT 1),
        (SELECT x.seq FROM euterpe_key_fronts AS x
         WHERE x.queue = :queue AND x.type = l.type AND x.priority > l.priority ORDER BY x.priority, x.seq LIMIT 1))
    WHERE l.is_front
    ORDER BY 1, 2 LIMIT -1
), line (seq, name, running, tokens) AS (
    SELECT * FROM (SELECT x.seq, '', NULL, NULL FROM inbox_jobs AS x INDEXED BY inbox_jobs_line
                   WHERE x.line = '' AND x.queue = :queue AND x.state || '' = 'scheduled'
                     AND x.type = (SELECT CASE WHEN COUNT(*) = 1 AND NOT MAX(is_front) THEN type END FROM starts)
                   ORDER BY x.priority, x.seq LIMIT -1)
    UNION ALL
    SELECT m.seq, m.name, m.running, m.tokens FROM merged AS m
)
