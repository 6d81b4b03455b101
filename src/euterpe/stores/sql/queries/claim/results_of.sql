-- takes: ids
-- returns: id, result
-- locks: none
-- The results of these jobs, where they completed.
SELECT CAST(j.id AS TEXT), j.result FROM inbox_jobs AS j WHERE j.id {{in ids uuid}} AND j.state = 'completed'
