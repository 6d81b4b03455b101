-- takes: limit, queue, priority, seq
-- returns: claimable, all
-- locks: none
-- How many jobs a claim would take before this one. At most :limit runs of a kind are looked at, so a million that wait, or that are of a
-- paused type, cost no more than a thousand. The second count is of the jobs that were looked at, and never more than :limit.
SELECT COALESCE(SUM(n.jobs) FILTER (WHERE n.type NOT IN (SELECT name FROM euterpe_pauses WHERE kind = 'type')
                                      AND n.expires_at > {{now}}), 0), LEAST(COALESCE(SUM(n.jobs), 0), :limit)
FROM {{queue_kinds}} AS k, LATERAL (
    SELECT r.type, r.expires_at, CASE WHEN r.priority < :priority THEN r.jobs ELSE LEAST(r.seq + r.jobs, :seq) - r.seq END AS jobs
    FROM euterpe_line AS r
    WHERE r.queue = :queue AND r.type = k.type AND r.priority = k.priority AND (r.priority < :priority OR r.seq < :seq)
    ORDER BY r.rank, r.seq LIMIT :limit
) AS n
WHERE k.priority <= :priority
