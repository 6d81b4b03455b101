-- takes: queue, limit
-- returns: type, sum_jobs, age_us
-- locks: none
-- What waits at the front of a queue, by type: up to a limit of runs of each type and priority.
SELECT f.type, CAST(SUM(f.jobs) AS bigint), {{now}} - MIN(f.since)
FROM {{queue_kinds}} AS k, LATERAL (SELECT r.type, r.since, r.jobs FROM euterpe_line AS r
                                    WHERE r.queue = :queue AND r.type = k.type AND r.priority = k.priority ORDER BY r.rank, r.seq LIMIT :limit) AS f
GROUP BY f.type
