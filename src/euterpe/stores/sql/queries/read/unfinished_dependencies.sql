-- takes: id, limit
-- returns: id, type, state, worker_id
-- locks: none
-- What this job still waits for, the first few of it.
SELECT CAST(d.id AS TEXT), d.type, d.state, d.worker_id
FROM job_dependencies AS e
JOIN inbox_jobs AS d ON d.id = e.depends_on
WHERE e.job_id = :id AND d.completed_at IS NULL
ORDER BY d.seq LIMIT :limit
