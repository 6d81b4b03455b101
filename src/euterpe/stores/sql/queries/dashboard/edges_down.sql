-- takes: ids, limit
-- returns: job_id, depends_on
-- locks: none
-- What depends on these jobs.
SELECT CAST(e.job_id AS TEXT), CAST(e.depends_on AS TEXT) FROM job_dependencies AS e
WHERE e.depends_on {{in ids uuid}} LIMIT :limit
