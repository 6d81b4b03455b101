-- takes: ids
-- returns: waiting_columns
-- locks: none
-- The pending jobs that wait for any of these.
SELECT {{packed waiting_columns}}
FROM job_dependencies AS d
JOIN inbox_jobs AS j ON j.id = d.job_id
WHERE d.depends_on IN (SELECT value FROM json_each(:ids)) AND j.pending_dependencies > 0
