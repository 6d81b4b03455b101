-- takes: ids
-- returns: nothing
-- locks: waits
DELETE FROM euterpe_ended_attempts WHERE job_id {{in ids uuid}}
