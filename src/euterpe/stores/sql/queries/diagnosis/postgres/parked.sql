-- takes: limit
-- returns: count, min_since, now
-- locks: none
-- Jobs that wait for a place of their concurrency key.
SELECT COUNT(*), MIN(f.since), {{now}}
FROM (SELECT l.since FROM euterpe_key_line AS l ORDER BY l.key, l.queue, l.type, l.priority, l.seq LIMIT :limit) AS f
