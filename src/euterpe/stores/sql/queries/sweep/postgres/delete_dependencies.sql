-- takes: ids
-- returns: nothing
-- locks: waits
-- Edges from and to these jobs. A plain OR of the two makes Postgres read every edge there is.
DELETE FROM job_dependencies
WHERE (job_id, depends_on) IN (
    SELECT job_id, depends_on FROM job_dependencies WHERE job_id {{in ids uuid}}
    UNION
    SELECT job_id, depends_on FROM job_dependencies WHERE depends_on {{in ids uuid}})
