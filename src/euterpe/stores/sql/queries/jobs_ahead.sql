-- How many jobs a claim would take before this one. At most :limit are looked at, so a million that wait, or that are of a
-- paused type, cost no more than a thousand. The second count is of those that were looked at.
SELECT COALESCE(SUM(CASE WHEN n.type NOT IN (SELECT name FROM euterpe_pauses WHERE kind = 'type')
                          AND n.expires_at > {{now}} THEN 1 ELSE 0 END), 0), COUNT(*)
FROM (
    SELECT type, expires_at FROM inbox_jobs {{by inbox_jobs_claim}}
    WHERE state || '' = 'scheduled' AND NOT parked AND queue = :queue AND (priority, seq) < (:priority, :seq)
    ORDER BY priority, seq LIMIT :limit
) AS n
