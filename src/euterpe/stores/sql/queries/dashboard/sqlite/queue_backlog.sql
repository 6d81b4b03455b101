-- takes: queues, limit
-- returns: queue, priority, min, min_scheduled_at
-- locks: none
-- What waits to be claimed, by queue and priority: counted up to a limit for each type, with the oldest one's time. Goes from one queue and type to the
-- next, so a backlog of a million costs no more than one of the limit. A key counts as its first job.
WITH RECURSIVE queues (queue, place) AS (
    SELECT '', 0
    UNION ALL
    SELECT (SELECT MIN(n.queue) FROM (
        SELECT (SELECT x.queue FROM inbox_jobs AS x INDEXED BY inbox_jobs_line
                WHERE x.line = '' AND x.queue > q.queue AND x.state || '' = 'scheduled' ORDER BY x.queue LIMIT 1) AS queue
        UNION ALL SELECT (SELECT MIN(f.queue) FROM euterpe_key_fronts AS f WHERE f.queue > q.queue)) AS n), q.place + 1
    FROM queues AS q WHERE q.queue IS NOT NULL AND q.place < :queues
), kinds (queue, type) AS (
    SELECT q.queue, '' FROM queues AS q WHERE q.queue <> ''
    UNION ALL
    SELECT k.queue, (SELECT MIN(n.type) FROM (
        SELECT (SELECT x.type FROM inbox_jobs AS x INDEXED BY inbox_jobs_line
                WHERE x.line = '' AND x.queue = k.queue AND x.type > k.type AND x.state || '' = 'scheduled' ORDER BY x.type LIMIT 1) AS type
        UNION ALL SELECT (SELECT MIN(f.type) FROM euterpe_key_fronts AS f WHERE f.queue = k.queue AND f.type > k.type)) AS n)
    FROM kinds AS k WHERE k.type IS NOT NULL
)
SELECT k.queue, p.priority, MIN(COUNT(j.seq), :limit), MIN(COALESCE(j.scheduled_at, j.created_at))
FROM kinds AS k
CROSS JOIN (SELECT 0 AS priority UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4) AS p
LEFT JOIN inbox_jobs AS j ON j.seq IN (
    SELECT * FROM (SELECT x.seq FROM inbox_jobs AS x INDEXED BY inbox_jobs_line
                   WHERE x.line = '' AND x.queue = k.queue AND x.type = k.type AND x.priority = p.priority AND x.state || '' = 'scheduled'
                   ORDER BY x.seq LIMIT :limit)
    UNION ALL
    SELECT * FROM (SELECT f.seq FROM euterpe_key_fronts AS f
                   WHERE f.queue = k.queue AND f.type = k.type AND f.priority = p.priority LIMIT :limit)
)
WHERE k.type <> ''
GROUP BY k.queue, p.priority
ORDER BY k.queue, p.priority
