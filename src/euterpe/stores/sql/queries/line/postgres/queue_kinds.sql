-- Types and priorities of a queue with jobs in the line, sought one by one.
(WITH RECURSIVE known (type, priority) AS (
    (SELECT r.type, r.priority FROM euterpe_line AS r WHERE r.queue = :queue ORDER BY r.type, r.priority LIMIT 1)
    UNION ALL
    (SELECT f.type, f.priority
     FROM known AS k, LATERAL (SELECT r.type, r.priority FROM euterpe_line AS r WHERE r.queue = :queue AND (r.type, r.priority) > (k.type, k.priority)
                               ORDER BY r.type, r.priority LIMIT 1) AS f)
 )
 SELECT k.type, k.priority FROM known AS k)
