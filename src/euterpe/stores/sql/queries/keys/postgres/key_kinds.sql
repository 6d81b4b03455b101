-- The kinds of jobs in the own line of a key, `k.name`, that are not paused, and the first job of each. One look a kind.
(WITH RECURSIVE kinds (queue, type, priority, seq, most) AS (
    (SELECT l.queue, l.type, l.priority, l.seq, l.most FROM euterpe_key_line AS l WHERE l.key = k.name
     ORDER BY l.queue, l.type, l.priority, l.seq LIMIT 1)
    UNION ALL
    (SELECT f.* FROM kinds AS b, LATERAL (
        SELECT l.queue, l.type, l.priority, l.seq, l.most FROM euterpe_key_line AS l
        WHERE l.key = k.name AND (l.queue, l.type) > (b.queue, b.type)
        ORDER BY l.queue, l.type, l.priority, l.seq LIMIT 1) AS f)
 )
 SELECT w.* FROM kinds AS w
 WHERE NOT EXISTS (SELECT 1 FROM euterpe_pauses AS p WHERE p.kind = 'type' AND p.name = w.type)
   AND NOT EXISTS (SELECT 1 FROM euterpe_pauses AS p WHERE p.kind = 'queue' AND p.name = w.queue))
