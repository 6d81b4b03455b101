-- takes: before
-- returns: seq, created_at
-- locks: none
-- The newest job below this place, and when it was created.
SELECT w.seq, w.created_at FROM inbox_jobs AS w WHERE w.seq < :before ORDER BY w.seq DESC LIMIT 1
