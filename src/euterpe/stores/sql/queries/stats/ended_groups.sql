-- takes: state, limit, requester_id
-- returns: queue, type, count
-- locks: none
-- Jobs of a state in which they have ended, the newest up to a limit: by queue and type.
SELECT r.queue, r.type, COUNT(*)
FROM (SELECT queue, type, requester_id FROM {{newest_of_state}} ORDER BY seq DESC LIMIT :limit) AS r
WHERE CAST(:requester_id AS TEXT) IS NULL OR r.requester_id = :requester_id
GROUP BY r.queue, r.type
