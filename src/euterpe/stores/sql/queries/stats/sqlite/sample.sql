-- takes: places, requester_id
-- returns: state, queue, type, count
-- locks: none
-- The jobs at these places.
SELECT j.state, j.queue, j.type, COUNT(*) FROM inbox_jobs AS j
WHERE j.seq IN (SELECT value FROM json_each(:places)) AND (:requester_id IS NULL OR j.requester_id = :requester_id)
GROUP BY j.state, j.queue, j.type
