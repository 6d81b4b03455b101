-- takes: ids
-- returns: job_id
-- locks: none
-- Who depends on any of these jobs.
SELECT DISTINCT CAST(d.job_id AS TEXT) FROM job_dependencies AS d WHERE d.depends_on {{in ids uuid}}
