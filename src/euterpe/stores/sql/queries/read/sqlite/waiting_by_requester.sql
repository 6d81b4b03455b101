-- takes: states, before, down_to
-- returns: requester_id, count, sum
-- locks: none
-- What each requester has of a state between two places, in jobs and bytes of payload.
SELECT w.requester_id, COUNT(*), SUM(length(w.payload))
FROM inbox_jobs AS w
WHERE w.state = :states ->> 0 AND w.seq < :before AND w.seq >= :down_to
GROUP BY w.requester_id
