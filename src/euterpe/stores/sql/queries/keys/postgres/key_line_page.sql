-- takes: key, queue, type, priority, seq, limit
-- returns: key, queue, type, priority, seq, count, over, gone
-- locks: waits
-- The next jobs in the own lines of keys behind a place: that of the last, those with an ended lifetime, and how many were dropped because they are
-- not ready any more.
WITH page AS MATERIALIZED (
    SELECT l.key, l.queue, l.type, l.priority, l.seq, l.expires_at
    FROM euterpe_key_line AS l
    WHERE (l.key, l.queue, l.type, l.priority, l.seq) > (CAST(:key AS text), CAST(:queue AS text), CAST(:type AS text), CAST(:priority AS smallint), CAST(:seq AS bigint))
    ORDER BY l.key, l.queue, l.type, l.priority, l.seq
    LIMIT :limit
), not_ready AS MATERIALIZED (
    SELECT p.* FROM page AS p
    WHERE (SELECT j.seq FROM inbox_jobs AS j WHERE j.seq = p.seq AND j.state = 'scheduled' AND j.priority = p.priority) IS NULL
), gone AS (
    DELETE FROM euterpe_key_line AS l USING not_ready AS p
    WHERE l.key = p.key AND l.queue = p.queue AND l.type = p.type AND l.priority = p.priority AND l.seq = p.seq
    RETURNING l.seq
)
SELECT p.key, p.queue, p.type, p.priority, p.seq, (SELECT COUNT(*) FROM page),
       ARRAY(SELECT o.seq FROM page AS o WHERE o.expires_at <= {{now}}), (SELECT COUNT(*) FROM gone)
FROM page AS p ORDER BY p.key DESC, p.queue DESC, p.type DESC, p.priority DESC, p.seq DESC LIMIT 1
