-- takes: limit, requester_id
-- returns: state, count, min_created_at
-- locks: none
-- Undelivered and dead webhook events by state, the oldest ones of each up to a limit, and since when the first is there.
SELECT o.state, COUNT(*), MIN(o.created_at)
FROM (
    SELECT * FROM (SELECT state, created_at, requester_id FROM job_outbox_events
                   WHERE state = 'scheduled' ORDER BY seq LIMIT :limit) AS a
    UNION ALL
    SELECT * FROM (SELECT state, created_at, requester_id FROM job_outbox_events
                   WHERE state = 'running' ORDER BY seq LIMIT :limit) AS b
    UNION ALL
    SELECT * FROM (SELECT state, created_at, requester_id FROM job_outbox_events
                   WHERE state = 'retrying' ORDER BY seq LIMIT :limit) AS c
    UNION ALL
    SELECT * FROM (SELECT state, created_at, requester_id FROM job_outbox_events
                   WHERE state = 'dead_letter' ORDER BY seq LIMIT :limit) AS d
) AS o
WHERE CAST(:requester_id AS TEXT) IS NULL OR o.requester_id = :requester_id
GROUP BY o.state
