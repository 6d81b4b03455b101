-- takes: ids
-- returns: id, priority, state, created_at
-- locks: none
-- Which of these jobs are stored: how a lost answer to a commit is resolved.
SELECT CAST(j.id AS TEXT), j.priority, j.state, j.created_at FROM inbox_jobs AS j WHERE j.id {{in ids uuid}}
