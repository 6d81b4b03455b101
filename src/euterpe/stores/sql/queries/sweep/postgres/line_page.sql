-- takes: queue, type, priority, rank, seq, limit
-- returns: queue, type, priority, rank, seq, count, over, gone, keys
-- locks: skips
-- The next runs of the line behind a place: that of the last, the jobs of those with an ended lifetime, and how many were dropped because none of
-- their jobs is ready any more. A run that a claim holds is being taken.
WITH page AS MATERIALIZED (
    SELECT r.ctid AS at, r.queue, r.type, r.priority, r.rank, r.seq, r.seq + r.jobs - 1 AS last, r.expires_at
    FROM euterpe_line AS r
    WHERE (r.queue, r.type, r.priority, r.rank, r.seq) > (CAST(:queue AS text), CAST(:type AS text), CAST(:priority AS smallint), CAST(:rank AS bigint), CAST(:seq AS bigint))
    ORDER BY r.queue, r.type, r.priority, r.rank, r.seq
    LIMIT :limit
), empty AS MATERIALIZED (
    SELECT r.ctid AS at, r.key FROM euterpe_line AS r
    WHERE r.ctid = ANY (ARRAY(
        SELECT p.at FROM page AS p
        WHERE NOT EXISTS (SELECT 1 FROM inbox_jobs AS j
                          WHERE j.seq BETWEEN p.seq AND p.last AND j.state = 'scheduled' AND j.priority = p.priority)))
    FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM euterpe_line AS r USING empty AS e WHERE r.ctid = e.at
)
SELECT p.queue, p.type, p.priority, p.rank, p.seq, (SELECT COUNT(*) FROM page),
       ARRAY(SELECT n.seq FROM page AS o, generate_series(o.seq, o.last) AS n (seq) WHERE o.expires_at <= {{now}} LIMIT :limit),
       (SELECT COUNT(*) FROM empty), ARRAY(SELECT DISTINCT e.key FROM empty AS e WHERE e.key IS NOT NULL)
FROM page AS p ORDER BY p.queue DESC, p.type DESC, p.priority DESC, p.rank DESC, p.seq DESC LIMIT 1
