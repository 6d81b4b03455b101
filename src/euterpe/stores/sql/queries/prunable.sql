-- Ended jobs past retention. Only the oldest are looked at: what is kept is never read through. A job that ended long
-- after it was submitted can make others wait for its own retention to end, not for longer.
SELECT CAST(j.id AS TEXT), j.requester_id, j.state FROM inbox_jobs AS j
WHERE j.id IN (SELECT o.id
               FROM (SELECT w.id, w.completed_at FROM inbox_jobs AS w
                     WHERE w.state = :state ORDER BY w.seq LIMIT 10 * :limit) AS o
               WHERE o.completed_at <= {{now}} - :keep_us
               LIMIT :limit)
  AND j.state || '' = :state AND j.completed_at <= {{now}} - :keep_us
{{skip_locked}}
