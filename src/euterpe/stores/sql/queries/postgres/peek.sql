-- What a claim of this queue would take next, out of the claim index and out of chunks.
SELECT {{job_columns}} FROM inbox_jobs AS j
WHERE j.id IN (
    SELECT f.id FROM (
        SELECT p.id, p.priority, p.seq FROM (
            SELECT w.id, w.priority, w.seq FROM inbox_jobs AS w WHERE {{claimable}} ORDER BY w.priority, w.seq LIMIT :limit) AS p
        UNION ALL
        SELECT q.id, q.priority, q.seq FROM (
            SELECT w.id, w.priority, w.seq
            FROM (SELECT * FROM euterpe_ready AS r
                  WHERE r.queue = :queue AND r.type NOT IN (SELECT name FROM euterpe_pauses WHERE kind = 'type')
                    AND NOT EXISTS (SELECT 1 FROM euterpe_pauses WHERE kind = 'queue' AND name = :queue)
                    AND r.expires_at > {{now}}
                  ORDER BY r.priority, r.lo LIMIT :limit) AS r,
            unnest(r.ranges) AS x,
            LATERAL (SELECT * FROM inbox_jobs AS w WHERE w.state = 'scheduled' AND w.seq >= lower(x) AND w.seq < upper(x) OFFSET 0) AS w
            ORDER BY w.priority, w.seq LIMIT :limit) AS q
        ORDER BY 2, 3 LIMIT :limit) AS f)
ORDER BY j.priority, j.seq
