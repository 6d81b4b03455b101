-- Keys, queues, types and priorities with jobs in the keys' own lines, up to 1,000 of them, sought one by one.
(WITH RECURSIVE known (key, queue, type, priority, n) AS (
    (SELECT l.key, l.queue, l.type, l.priority, 1 FROM euterpe_key_line AS l ORDER BY l.key, l.queue, l.type, l.priority LIMIT 1)
    UNION ALL
    (SELECT f.key, f.queue, f.type, f.priority, k.n + 1
     FROM known AS k, LATERAL (SELECT l.key, l.queue, l.type, l.priority FROM euterpe_key_line AS l
                               WHERE (l.key, l.queue, l.type, l.priority) > (k.key, k.queue, k.type, k.priority)
                               ORDER BY l.key, l.queue, l.type, l.priority LIMIT 1) AS f
     WHERE k.n < 1000)
 )
 SELECT k.key, k.queue, k.type, k.priority FROM known AS k)
