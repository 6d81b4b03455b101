-- Of the oldest failed jobs, those that nobody has looked after for long.
SELECT COUNT(*)
FROM (SELECT j.completed_at FROM inbox_jobs AS j WHERE j.{{indexed_state}} = 'failed' ORDER BY j.seq LIMIT :limit) AS f
WHERE f.completed_at < {{now}} - :age_us
