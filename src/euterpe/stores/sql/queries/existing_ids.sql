-- Which of these jobs are stored: how a lost answer to a commit is resolved.
SELECT CAST(j.id AS TEXT), j.priority, j.state, j.created_at FROM {{jobs_now}} AS j WHERE j.id {{in ids uuid}}
