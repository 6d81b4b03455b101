-- takes: ids
-- returns: dependency_columns
-- locks: none
-- What these jobs depend on, each list in the order in which it was said; behind it what was spawned meanwhile.
SELECT {{packed dependency_columns}}
FROM (
    SELECT job_id, depends_on, position
    FROM job_dependencies
    WHERE job_id IN (SELECT value FROM json_each(:ids))
    ORDER BY job_id, position IS NULL, position, depends_on
) AS d
