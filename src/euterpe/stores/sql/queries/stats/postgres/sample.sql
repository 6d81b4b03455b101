-- takes: percent, requester_id
-- returns: state, queue, type, count
-- locks: none
-- The jobs on so many pages in a hundred, chosen by chance, and the same ones each time: they stay in memory.
SELECT j.state, j.queue, j.type, COUNT(*)
FROM inbox_jobs AS j TABLESAMPLE SYSTEM (CAST(:percent AS real)) REPEATABLE (1)
WHERE CAST(:requester_id AS text) IS NULL OR j.requester_id = :requester_id
GROUP BY j.state, j.queue, j.type
