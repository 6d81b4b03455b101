-- takes: ids
-- returns: id
-- locks: none
-- Those of these jobs that another one runs again.
SELECT CAST(j.id AS TEXT) FROM inbox_jobs AS j WHERE j.id {{in ids uuid}} AND j.replayed_as IS NOT NULL
