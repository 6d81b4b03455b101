-- Jobs of a graph, without what is large.
SELECT CAST(j.id AS TEXT), j.requester_id, j.type, j.state, j.progress FROM {{jobs_now}} AS j
WHERE j.id {{in ids uuid}}
