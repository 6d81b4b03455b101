-- takes: queue, limit
-- returns: type, count, age_us
-- locks: none
-- What waits of each type of a queue, counted up to a limit.
SELECT t.type, COUNT(*), {{now}} - MIN(COALESCE(j.scheduled_at, j.created_at))
FROM ({{types_of_queue}}) AS t
CROSS JOIN inbox_jobs AS j ON j.seq IN (
    SELECT * FROM (SELECT x.seq FROM inbox_jobs AS x INDEXED BY inbox_jobs_line
                   WHERE x.line = '' AND x.queue = :queue AND x.type = t.type AND x.state || '' = 'scheduled'
                   ORDER BY x.priority, x.seq LIMIT :limit)
    UNION ALL
    SELECT * FROM (SELECT f.seq FROM euterpe_key_fronts AS f WHERE f.queue = :queue AND f.type = t.type LIMIT :limit)
)
GROUP BY t.type
