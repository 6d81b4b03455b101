-- Whole jobs by id.
SELECT {{job_columns}} FROM {{jobs}} AS j WHERE j.id {{in ids uuid}}
