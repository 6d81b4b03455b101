-- As the shared text. What has completed is in no list: the next jobs behind a number are looked at.
SELECT o.id
FROM ((SELECT w.id, w.state, w.completed_at FROM inbox_jobs AS w
       WHERE w.listed IS NOT NULL AND (w.listed, w.seq) >= (CAST(:state AS text), 0) AND w.listed <= CAST(:state AS text)
       ORDER BY w.listed, w.seq LIMIT 10 * :limit)
      UNION ALL
      (SELECT w.id, w.state, w.completed_at FROM inbox_jobs AS w
       WHERE CAST(:state AS text) = 'completed' AND w.seq > CAST(:after AS bigint) ORDER BY w.seq LIMIT 10 * :limit)) AS o
WHERE o.state = CAST(:state AS text) AND o.completed_at <= {{now}} - :keep_us
LIMIT :limit
