-- takes: each more, id
-- returns: nothing
-- locks: waits
-- A fan-in waits for this many more jobs.
UPDATE inbox_jobs SET pending_dependencies = pending_dependencies + :more
WHERE id = :id AND pending_dependencies > 0
