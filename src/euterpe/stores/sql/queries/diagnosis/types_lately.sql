-- Types among the newest jobs of a state that a worker has had lately.
SELECT DISTINCT f.type
FROM (SELECT j.type, j.started_at FROM inbox_jobs AS j WHERE j.state = :state ORDER BY j.seq DESC LIMIT :limit) AS f
WHERE f.started_at > {{now}} - :window_us
