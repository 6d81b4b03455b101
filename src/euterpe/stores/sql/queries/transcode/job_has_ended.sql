-- takes: job_id
-- returns: found
-- locks: none
-- One row where nobody will run this job any more.
SELECT 1 FROM inbox_jobs AS j
WHERE j.id = :job_id AND j.state IN ('completed', 'failed', 'dead_letter', 'cancelled')
