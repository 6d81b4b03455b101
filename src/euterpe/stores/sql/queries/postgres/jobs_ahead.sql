-- How many jobs a claim would take before this one, out of the claim index and out of chunks. At most :limit rows of each are looked
-- at, so a million that wait, or that are of a paused type, cost no more than a thousand. The second count is of the jobs that
-- were looked at, and never more than :limit.
SELECT COALESCE(SUM(n.jobs) FILTER (WHERE n.type NOT IN (SELECT name FROM euterpe_pauses WHERE kind = 'type')
                                      AND n.expires_at > {{now}}), 0), LEAST(COALESCE(SUM(n.jobs), 0), :limit)
FROM (
    (SELECT type, expires_at, 1 AS jobs FROM inbox_jobs
     WHERE indexed_state || '' = 'scheduled' AND NOT parked AND queue = :queue AND (priority, seq) < (:priority, :seq)
     ORDER BY priority, seq LIMIT :limit)
    UNION ALL
    (SELECT r.type, r.expires_at,
            CASE WHEN r.priority < :priority THEN r.jobs
                 ELSE (SELECT CAST(SUM(LEAST(upper(x), :seq) - lower(x)) AS integer) FROM unnest(r.ranges) AS x
                       WHERE lower(x) < :seq) END
     FROM euterpe_ready AS r
     WHERE r.queue = :queue AND (r.priority, r.lo) < (:priority, :seq)
     ORDER BY r.priority, r.lo LIMIT :limit)
) AS n
