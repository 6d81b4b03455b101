-- How many jobs a claim would take before this one, in the claim index and in chunks. At most :limit of each are looked
-- at. The second count is of those that were looked at.
SELECT COALESCE(SUM(CASE WHEN a.type NOT IN (SELECT name FROM euterpe_pauses WHERE kind = 'type')
                          AND a.expires_at > {{now}} THEN a.n ELSE 0 END), 0), COALESCE(SUM(a.n), 0)
FROM (
    SELECT i.type, i.expires_at, 1 AS n FROM (
        SELECT type, expires_at FROM inbox_jobs
        WHERE state || '' = 'scheduled' AND NOT parked AND queue = :queue AND (priority, seq) < (:priority, :seq)
        ORDER BY priority, seq LIMIT :limit) AS i
    UNION ALL
    SELECT r.type, r.expires_at,
           CASE WHEN r.priority < :priority THEN r.jobs
                ELSE (SELECT COALESCE(SUM(LEAST(upper(x), :seq) - lower(x)), 0) FROM unnest(r.ranges) AS x
                      WHERE lower(x) < :seq) END
    FROM (SELECT * FROM euterpe_ready WHERE queue = :queue AND (priority, lo) < (:priority, :seq)
          ORDER BY priority, lo LIMIT :limit) AS r
) AS a
