-- Ended jobs of a state that are past retention, among the oldest. What is kept is never read through.
SELECT o.id
FROM (SELECT w.id, w.completed_at FROM inbox_jobs AS w
      WHERE w.state = :state ORDER BY w.seq LIMIT 10 * :limit) AS o
WHERE o.completed_at <= {{now}} - :keep_us
LIMIT :limit
