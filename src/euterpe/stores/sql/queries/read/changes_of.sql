-- takes: ids
-- returns: change_columns
-- locks: none
-- Where these jobs are now.
SELECT {{change_columns}} FROM inbox_jobs AS j WHERE j.id {{in ids uuid}}
