-- takes: id
-- returns: replayed_as
-- locks: none
-- The job that runs this one again.
SELECT CAST(j.replayed_as AS TEXT) FROM inbox_jobs AS j WHERE j.id = :id
