-- takes: ids
-- returns: nothing
-- locks: waits
DELETE FROM job_dependencies WHERE job_id {{in ids uuid}} OR depends_on {{in ids uuid}}
