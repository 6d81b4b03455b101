-- takes: id
-- returns: id
-- locks: waits
-- The pending fan-ins that wait for this parent, held until the end of this transaction.
SELECT CAST(j.id AS TEXT) FROM job_dependencies AS d
JOIN inbox_jobs AS j ON j.id = d.job_id
WHERE d.depends_on = :id AND j.pending_dependencies > 0 AND j.dependency = 'fan_in'
ORDER BY j.id
{{lock j}}
