WITH RECURSIVE waiting (type) AS (
    SELECT ''
    UNION ALL
    SELECT (SELECT MIN(t.type) FROM (
        SELECT (SELECT x.type FROM inbox_jobs AS x INDEXED BY inbox_jobs_line
                WHERE x.line = '' AND x.queue = :queue AND x.type > w.type AND x.state || '' = 'scheduled' ORDER BY x.type LIMIT 1) AS type
        UNION ALL
        SELECT (SELECT MIN(f.type) FROM euterpe_key_fronts AS f WHERE f.queue = :queue AND f.type > w.type)) AS t)
    FROM waiting AS w WHERE w.type IS NOT NULL
)
SELECT type FROM waiting WHERE type <> ''
