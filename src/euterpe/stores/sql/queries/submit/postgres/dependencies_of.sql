-- takes: ids
-- returns: job_id, depends_on
-- locks: none
-- What these jobs wait for.
SELECT CAST(d.job_id AS text), CAST(d.depends_on AS text) FROM job_dependencies AS d WHERE d.job_id {{in ids uuid}}
