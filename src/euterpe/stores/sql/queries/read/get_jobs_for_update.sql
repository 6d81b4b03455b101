-- takes: ids
-- returns: job_columns
-- locks: waits
-- Whole jobs by id, held against other writers until the end of this transaction.
SELECT {{job_columns}} FROM inbox_jobs AS j WHERE j.id {{in ids uuid}} ORDER BY j.id {{lock j}}
