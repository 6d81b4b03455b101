-- takes: state, limit, tries
-- returns: origin, count
-- locks: none
-- Where the newest events of a state, after several tries, should have gone.
SELECT f.origin, COUNT(*)
FROM (SELECT e.origin, e.attempt_count FROM job_outbox_events AS e WHERE e.state = :state ORDER BY e.seq DESC LIMIT :limit) AS f
WHERE f.attempt_count >= :tries
GROUP BY f.origin
