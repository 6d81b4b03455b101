-- takes: id, limit
-- returns: id, requester_id, type, state, progress
-- locks: none
-- What a job spawned, the first of it.
SELECT CAST(j.id AS TEXT), j.requester_id, j.type, j.state, j.progress FROM inbox_jobs AS j
WHERE j.parent_id = :id ORDER BY j.seq LIMIT :limit
