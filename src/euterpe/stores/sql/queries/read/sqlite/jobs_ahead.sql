-- takes: queue, priority, limit, seq
-- returns: claimable, all
-- locks: none
-- How many jobs a claim would take before this one; a key counts as its first job. At most :limit of each type are looked at, so a million that wait
-- cost no more than a thousand. The second count is of those that were looked at.
SELECT COUNT(*) FILTER (WHERE n.expires_at > {{now}}), COUNT(*)
FROM (SELECT type FROM ({{types_of_queue}}) AS w WHERE {{unpaused}}) AS t
CROSS JOIN inbox_jobs AS n ON n.seq IN (
    SELECT * FROM (SELECT x.seq FROM inbox_jobs AS x INDEXED BY inbox_jobs_line
                   WHERE x.line = '' AND x.queue = :queue AND x.type = t.type AND x.state || '' = 'scheduled' AND x.priority < :priority
                   ORDER BY x.priority, x.seq LIMIT :limit)
    UNION ALL
    SELECT * FROM (SELECT x.seq FROM inbox_jobs AS x INDEXED BY inbox_jobs_line
                   WHERE x.line = '' AND x.queue = :queue AND x.type = t.type AND x.state || '' = 'scheduled'
                     AND x.priority = :priority AND x.seq < :seq ORDER BY x.seq LIMIT :limit)
    UNION ALL
    SELECT * FROM (SELECT f.seq FROM euterpe_key_fronts AS f
                   WHERE f.queue = :queue AND f.type = t.type AND (f.priority, f.seq) < (:priority, :seq) LIMIT :limit)
)
