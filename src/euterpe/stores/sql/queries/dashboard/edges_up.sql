-- takes: ids, limit
-- returns: job_id, depends_on
-- locks: none
-- What these jobs depend on.
SELECT CAST(e.job_id AS TEXT), CAST(e.depends_on AS TEXT) FROM job_dependencies AS e
WHERE e.job_id {{in ids uuid}} LIMIT :limit
