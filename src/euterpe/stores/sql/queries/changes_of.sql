-- Where these jobs are now.
SELECT {{change_columns}} FROM {{jobs_now}} AS j WHERE j.id {{in ids uuid}}
