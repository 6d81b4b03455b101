-- takes: ids
-- returns: nothing
-- locks: waits
DELETE FROM euterpe_attempt_logs WHERE job_id {{in ids uuid}}
