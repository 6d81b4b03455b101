-- Queues, types and priorities with jobs in the line, up to 1,000 of them. They are sought one by one, so a million jobs of one kind cost one step.
(WITH RECURSIVE known (queue, type, priority, n) AS (
    (SELECT r.queue, r.type, r.priority, 1 FROM euterpe_line AS r ORDER BY r.queue, r.type, r.priority LIMIT 1)
    UNION ALL
    (SELECT f.queue, f.type, f.priority, k.n + 1
     FROM known AS k, LATERAL (SELECT r.queue, r.type, r.priority FROM euterpe_line AS r
                               WHERE (r.queue, r.type, r.priority) > (k.queue, k.type, k.priority)
                               ORDER BY r.queue, r.type, r.priority LIMIT 1) AS f
     WHERE k.n < 1000)
 )
 SELECT k.queue, k.type, k.priority FROM known AS k)
