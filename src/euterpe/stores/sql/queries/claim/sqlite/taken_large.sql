-- takes: seqs
-- returns: job_columns
-- locks: none
-- The jobs that were just claimed, where they are too large for one value.
SELECT {{job_columns}} FROM inbox_jobs AS j WHERE j.seq IN (SELECT value FROM json_each(:seqs))
