-- takes: ids
-- returns: nothing
-- locks: waits
-- Settling these jobs must look for dependents from now on.
UPDATE inbox_jobs SET has_dependents = TRUE WHERE id {{in ids uuid}} AND NOT has_dependents
