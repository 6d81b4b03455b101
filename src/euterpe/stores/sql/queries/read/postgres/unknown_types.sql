-- takes: queue, limit, types
-- returns: type, sum_jobs
-- locks: none
-- Jobs of a queue whose types a worker does not know, counted up to a limit of runs each.
SELECT f.type, CAST(SUM(f.jobs) AS bigint)
FROM {{queue_kinds}} AS k, LATERAL (SELECT r.type, r.jobs FROM euterpe_line AS r
                                    WHERE r.queue = :queue AND r.type = k.type AND r.priority = k.priority LIMIT :limit) AS f
WHERE NOT (k.type {{in types text}})
GROUP BY f.type
