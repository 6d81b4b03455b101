-- takes: ids
-- returns: job_id, state
-- locks: none
-- How jobs ended that retention has removed.
SELECT CAST(job_id AS text), state FROM euterpe_tombstones WHERE job_id {{in ids uuid}}
