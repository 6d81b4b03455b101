-- takes: state, limit, window_us
-- returns: state, count
-- locks: none
-- Ended lately, by state: the newest rows are looked at, not the history.
SELECT state, COUNT(*) FROM (
    SELECT state, completed_at FROM {{newest_of_state}} ORDER BY seq DESC LIMIT :limit
) AS recent
WHERE completed_at > {{now}} - :window_us
GROUP BY state
