-- Whole jobs by id.
SELECT {{job_columns}} FROM inbox_jobs AS j WHERE j.id {{in ids uuid}}
