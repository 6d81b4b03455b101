-- Which of these jobs ended badly, and whether they did so because a job that they waited for had.
SELECT CAST(j.id AS TEXT), COALESCE(j.error LIKE '{"code":"dependency_ended"%', FALSE) FROM inbox_jobs AS j
WHERE j.id {{in ids uuid}} AND j.state IN ('failed', 'dead_letter', 'cancelled')
