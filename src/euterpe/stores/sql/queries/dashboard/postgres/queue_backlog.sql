-- takes: limit, queues
-- returns: queue, priority, count, min_since
-- locks: none
-- What waits to be claimed, by queue and priority: counted up to a limit, with the oldest one's time. Goes along the line from one
-- kind to the next, so a backlog of a million costs no more than one of the limit.
SELECT k.queue, k.priority, LEAST(CAST(:limit AS bigint), CAST(SUM(c.jobs) AS bigint)), MIN(c.since)
FROM (SELECT k.*, dense_rank() OVER (ORDER BY k.queue) AS place FROM {{line_kinds}} AS k) AS k,
     LATERAL (SELECT r.jobs, r.since FROM euterpe_line AS r
              WHERE {{of_kind}} ORDER BY r.rank, r.seq LIMIT :limit) AS c
WHERE k.place <= :queues
GROUP BY k.queue, k.priority
ORDER BY k.queue, k.priority
