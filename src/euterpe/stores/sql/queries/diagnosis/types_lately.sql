-- takes: state, limit, window_us
-- returns: type
-- locks: none
-- Types among the newest jobs of a state that a worker has had lately.
SELECT DISTINCT f.type
FROM (SELECT type, started_at FROM {{newest_of_state}} ORDER BY seq DESC LIMIT :limit) AS f
WHERE f.started_at > {{now}} - :window_us
