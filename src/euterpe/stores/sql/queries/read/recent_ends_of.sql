-- takes: state, limit, window_us, requester_id
-- returns: state, count
-- locks: none
-- One requester's jobs that ended lately, by state: the newest rows are looked at, not the history.
SELECT state, COUNT(*) FROM (
    SELECT state, completed_at, requester_id FROM {{newest_of_state}} ORDER BY seq DESC LIMIT :limit
) AS recent
WHERE completed_at > {{now}} - :window_us AND requester_id = :requester_id
GROUP BY state
