-- Whole jobs by id.
SELECT {{job_columns}} FROM {{jobs_now}} AS j WHERE j.id {{in ids uuid}}
