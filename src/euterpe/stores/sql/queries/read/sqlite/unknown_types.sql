-- takes: queue, limit, types
-- returns: type, count
-- locks: none
-- Jobs of a queue whose types a worker does not know, counted up to a limit.
SELECT t.type, (SELECT COUNT(*) FROM (SELECT 1 FROM inbox_jobs AS x INDEXED BY inbox_jobs_line
                                      WHERE x.line = '' AND x.queue = :queue AND x.type = t.type AND x.state || '' = 'scheduled' LIMIT :limit))
             + (SELECT COUNT(*) FROM (SELECT 1 FROM euterpe_key_fronts AS f WHERE f.queue = :queue AND f.type = t.type LIMIT :limit))
FROM ({{types_of_queue}}) AS t
WHERE NOT (t.type {{in types text}})
