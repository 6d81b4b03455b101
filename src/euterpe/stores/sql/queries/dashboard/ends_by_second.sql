-- takes: window_us, state, limit, requester_id
-- returns: second, count
-- locks: none
-- When the newest jobs of a state ended, by the second. The first column is 0 for all that ended before the window.
SELECT CASE WHEN r.completed_at < {{now}} - :window_us THEN 0 ELSE r.completed_at / 1000000 END AS second, COUNT(*)
FROM (SELECT completed_at, requester_id FROM {{newest_of_state}} ORDER BY seq DESC LIMIT :limit) AS r
WHERE CAST(:requester_id AS TEXT) IS NULL OR r.requester_id = :requester_id
GROUP BY second
