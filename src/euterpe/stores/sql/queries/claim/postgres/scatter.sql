-- takes: limit, prefetch, queues, types
-- returns: nothing
-- locks: skips
-- Make single runs of the next longer ones, so that a claim can go around the rows of some of their jobs.
WITH done AS (SELECT 1), {{kinds}}, gone AS (
    DELETE FROM euterpe_line AS r
    USING kinds AS k, LATERAL (
        SELECT l.ctid AS at FROM euterpe_line AS l
        WHERE l.queue = k.queue AND l.type = k.type AND l.jobs > 1
        ORDER BY l.priority, l.rank, l.seq LIMIT 4
        FOR UPDATE SKIP LOCKED
    ) AS l
    WHERE r.ctid = l.at
    RETURNING r.*
)
INSERT INTO euterpe_line (queue, type, priority, rank, seq, jobs, expires_at, since, can_wait, tells, key)
SELECT g.queue, g.type, g.priority, g.rank, n.seq, 1, g.expires_at, g.since, g.can_wait, g.tells, g.key
FROM gone AS g, generate_series(g.seq, g.seq + g.jobs - 1) AS n (seq)
