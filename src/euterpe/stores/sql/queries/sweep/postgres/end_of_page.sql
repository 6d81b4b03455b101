-- takes: after, limit, keep_us
-- returns: max_seq
-- locks: none
-- The last of the next jobs behind a number, as `oldest_ended` looks at them; nothing where retention keeps all that come.
SELECT MAX(o.seq) FROM (SELECT w.seq, w.created_at FROM inbox_jobs AS w WHERE w.seq > :after ORDER BY w.seq LIMIT 10 * :limit) AS o
HAVING MIN(o.created_at) <= {{now}} - :keep_us
