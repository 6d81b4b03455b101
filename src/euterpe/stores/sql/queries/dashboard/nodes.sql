-- takes: ids
-- returns: id, requester_id, type, state, progress
-- locks: none
-- Jobs of a graph, without what is large.
SELECT CAST(j.id AS TEXT), j.requester_id, j.type, j.state, j.progress FROM inbox_jobs AS j
WHERE j.id {{in ids uuid}}
