-- takes: limit
-- returns: state, count
-- locks: none
-- How many undelivered and dead webhook events there are, counted up to a limit. Reads the index, and no event.
SELECT s.state, (SELECT COUNT(*) FROM (SELECT 1 FROM job_outbox_events AS e WHERE e.state = s.state
                                       ORDER BY e.seq LIMIT :limit) AS counted)
FROM (SELECT 'scheduled' AS state UNION ALL SELECT 'running' UNION ALL SELECT 'retrying' UNION ALL SELECT 'dead_letter') AS s
