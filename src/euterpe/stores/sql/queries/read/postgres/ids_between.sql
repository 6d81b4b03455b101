-- takes: low, high, limit
-- returns: seq
-- locks: none
-- Jobs whose ids begin alike.
SELECT w.seq FROM inbox_jobs AS w
WHERE w.id >= CAST(:low AS uuid) AND w.id <= CAST(:high AS uuid) ORDER BY w.id LIMIT :limit
