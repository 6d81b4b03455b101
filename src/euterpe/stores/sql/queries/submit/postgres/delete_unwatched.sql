-- takes: ids
-- returns: nothing
-- locks: waits
DELETE FROM euterpe_unwatched_dependencies WHERE job_id {{in ids uuid}}
