-- takes: limit, age_us
-- returns: count
-- locks: none
-- Of the oldest failed jobs, those that nobody has looked after for long.
SELECT COUNT(*)
FROM (SELECT j.completed_at FROM inbox_jobs AS j WHERE j.{{listed}} = 'failed' ORDER BY j.seq LIMIT :limit) AS f
WHERE f.completed_at < {{now}} - :age_us
