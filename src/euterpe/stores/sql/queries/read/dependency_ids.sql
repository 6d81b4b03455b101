-- takes: ids
-- returns: job_id, depends_on, position
-- locks: none
-- What these jobs depend on, each list in the order in which it was said; behind it what was spawned meanwhile.
SELECT CAST(d.job_id AS TEXT), CAST(d.depends_on AS TEXT), d.position
FROM job_dependencies AS d
WHERE d.job_id {{in ids uuid}}
ORDER BY d.job_id, d.position IS NULL, d.position, d.depends_on
