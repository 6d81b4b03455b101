-- takes: ids
-- returns: depends_on, id, dependency, pending_dependencies, has_callback_url
-- locks: waits
-- The pending jobs that wait for any of these, held until the end of this transaction.
SELECT CAST(d.depends_on AS TEXT), CAST(j.id AS TEXT), j.dependency, j.pending_dependencies,
       j.callback_url IS NOT NULL
FROM job_dependencies AS d
JOIN inbox_jobs AS j ON j.id = d.job_id
WHERE d.depends_on {{in ids uuid}} AND j.pending_dependencies > 0
ORDER BY j.id
{{lock j}}
