-- What waits to be claimed, by queue and priority: counted up to a limit, with the oldest one's time. Goes along the claim
-- index and the chunks from one queue to the next, so a backlog of a million costs no more than one of the limit.
WITH RECURSIVE names (queue, place) AS (
    SELECT LEAST((SELECT MIN(queue) FROM inbox_jobs WHERE indexed_state || '' = 'scheduled' AND NOT parked),
                 (SELECT MIN(queue) FROM euterpe_ready)), 1
    UNION ALL
    SELECT LEAST((SELECT MIN(j.queue) FROM inbox_jobs AS j
                  WHERE j.indexed_state || '' = 'scheduled' AND NOT j.parked AND j.queue > n.queue),
                 (SELECT MIN(r.queue) FROM euterpe_ready AS r WHERE r.queue > n.queue)), n.place + 1
    FROM names AS n WHERE n.queue IS NOT NULL AND n.place < :queues
)
SELECT n.queue, p.priority,
       LEAST(CAST(:limit AS bigint),
             (SELECT COUNT(*) FROM (SELECT 1 FROM inbox_jobs AS c
                                    WHERE c.indexed_state || '' = 'scheduled' AND NOT c.parked
                                      AND c.queue = n.queue AND c.priority = p.priority ORDER BY c.seq LIMIT :limit) AS counted)
             + (SELECT COALESCE(SUM(r.jobs), 0) FROM (
                    SELECT c.jobs FROM euterpe_ready AS c WHERE c.queue = n.queue AND c.priority = p.priority
                    ORDER BY c.lo LIMIT :limit) AS r)),
       LEAST((SELECT COALESCE(o.scheduled_at, o.created_at) FROM inbox_jobs AS o
              WHERE o.indexed_state || '' = 'scheduled' AND NOT o.parked AND o.queue = n.queue AND o.priority = p.priority
              ORDER BY o.seq LIMIT 1),
             (SELECT r.waiting_since FROM euterpe_ready AS r WHERE r.queue = n.queue AND r.priority = p.priority
              ORDER BY r.lo LIMIT 1))
FROM names AS n
CROSS JOIN (SELECT 0 AS priority UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4) AS p
WHERE n.queue IS NOT NULL
ORDER BY n.queue, p.priority
