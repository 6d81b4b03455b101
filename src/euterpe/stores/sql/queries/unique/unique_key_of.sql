-- takes: id
-- returns: unique_key
-- locks: none
-- The unique key that a job was submitted with.
SELECT j.unique_key FROM inbox_jobs AS j WHERE j.id = :id
