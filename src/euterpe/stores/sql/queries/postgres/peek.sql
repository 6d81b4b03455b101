-- What a claim of this queue would take next, out of the claim index and out of chunks; nothing is taken.
SELECT {{job_columns}}
FROM (
    (SELECT * FROM inbox_jobs AS w WHERE {{claimable}} ORDER BY w.priority, w.seq LIMIT :limit)
    UNION ALL
    (SELECT w.*
     FROM (SELECT * FROM euterpe_ready AS r
           WHERE r.queue = :queue AND r.type NOT IN (SELECT name FROM euterpe_pauses WHERE kind = 'type')
             AND NOT EXISTS (SELECT 1 FROM euterpe_pauses WHERE kind = 'queue' AND name = :queue)
             AND r.expires_at > {{now}}
           ORDER BY r.priority, r.lo LIMIT :limit) AS r,
     unnest(r.ranges) AS x,
     LATERAL (SELECT * FROM inbox_jobs AS w WHERE {{within}} AND w.state || '' = 'scheduled'
              AND w.chunk = r.chunk ORDER BY w.seq LIMIT :limit) AS w
     ORDER BY w.priority, w.seq LIMIT :limit)
) AS j
ORDER BY j.priority, j.seq
LIMIT :limit
