-- takes: low, high, limit
-- returns: seq
-- locks: none
-- Jobs whose ids begin alike.
SELECT w.seq FROM inbox_jobs AS w WHERE w.id >= :low AND w.id <= :high ORDER BY w.id LIMIT :limit
