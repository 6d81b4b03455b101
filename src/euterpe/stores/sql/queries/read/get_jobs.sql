-- takes: ids
-- returns: job_columns
-- locks: none
-- Whole jobs by id.
SELECT {{job_columns}} FROM inbox_jobs AS j WHERE j.id {{in ids uuid}}
