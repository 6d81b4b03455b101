-- takes: rows of name
-- returns: name, queue
-- locks: waits
-- The first job of each line of these keys, if its key has a place for it: a limit, less what runs. Keys that have fronts are passed over. Tokens of rates
-- come with time, so claims look at them. Returns key and queue of each. Goes from one queue and type of a key to the next, so it costs the same
-- however many jobs wait.
INSERT INTO euterpe_key_fronts (seq, name, queue, type, priority)
WITH RECURSIVE keys (name) AS MATERIALIZED (
    SELECT k.name FROM {{rows name}} AS k
), fronts (name, running, seq) AS (
    SELECT f.name, {{running}},
           (SELECT x.seq FROM inbox_jobs AS x INDEXED BY inbox_jobs_line WHERE x.line = f.name AND x.state || '' = 'scheduled'
            ORDER BY x.queue, x.type, x.priority, x.seq LIMIT 1)
    FROM keys AS f WHERE NOT EXISTS (SELECT 1 FROM euterpe_key_fronts AS e WHERE e.name = f.name)
    UNION ALL
    SELECT f.name, f.running,
           COALESCE((SELECT x.seq FROM inbox_jobs AS x INDEXED BY inbox_jobs_line
                     WHERE x.line = f.name AND x.state || '' = 'scheduled' AND x.queue = j.queue AND x.type > j.type
                     ORDER BY x.type, x.priority, x.seq LIMIT 1),
                    (SELECT x.seq FROM inbox_jobs AS x INDEXED BY inbox_jobs_line
                     WHERE x.line = f.name AND x.state || '' = 'scheduled' AND x.queue > j.queue
                     ORDER BY x.queue, x.type, x.priority, x.seq LIMIT 1))
    FROM fronts AS f CROSS JOIN inbox_jobs AS j ON j.seq = f.seq
)
SELECT j.seq, f.name, j.queue, j.type, j.priority
FROM fronts AS f CROSS JOIN inbox_jobs AS j ON j.seq = f.seq
WHERE (f.running >= j.concurrency_limit) IS NOT TRUE
RETURNING name, queue
