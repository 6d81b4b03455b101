-- takes: state, limit, since, owners
-- returns: change_columns
-- locks: none
-- Among the newest jobs of one state, those of these requesters that changed lately. The limit comes before the
-- filters: the cost is the same whatever the history and whoever asks.
SELECT {{change_columns}}
FROM (SELECT * FROM {{newest_of_state}} ORDER BY seq DESC LIMIT :limit) AS j
WHERE j.updated_at > :since AND j.requester_id {{in owners text}}
