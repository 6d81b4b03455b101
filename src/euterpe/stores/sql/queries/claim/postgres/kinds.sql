-- The queues and types to look for, in the worker's order of preference. Types are sought one by one, so a million jobs of a paused or unknown
-- type cost nothing. A worker that names no types gets every one but `transcode`, which needs a worker made for it.
wanted AS MATERIALIZED (
    SELECT CAST(:limit AS bigint) AS now, CAST(:limit AS bigint) + CAST(:prefetch AS bigint) AS total FROM done
), kinds AS MATERIALIZED (
    SELECT q.place, q.queue, t.type
    FROM wanted, unnest(CAST(:queues AS text[])) WITH ORDINALITY AS q (queue, place), LATERAL (
        SELECT g.type FROM unnest(CAST(:types AS text[])) AS g (type)
        UNION ALL
        (WITH RECURSIVE known (type) AS (
            (SELECT r.type FROM euterpe_line AS r WHERE CAST(:types AS text[]) IS NULL AND r.queue = q.queue ORDER BY r.type LIMIT 1)
            UNION ALL
            SELECT (SELECT r.type FROM euterpe_line AS r WHERE r.queue = q.queue AND r.type > k.type ORDER BY r.type LIMIT 1)
            FROM known AS k WHERE k.type IS NOT NULL
        ) SELECT k.type FROM known AS k WHERE k.type <> 'transcode')
    ) AS t
    WHERE wanted.total > 0
      AND NOT EXISTS (SELECT 1 FROM euterpe_pauses AS p WHERE p.kind = 'queue' AND p.name = q.queue)
      AND NOT EXISTS (SELECT 1 FROM euterpe_pauses AS p WHERE p.kind = 'type' AND p.name = t.type)
)
