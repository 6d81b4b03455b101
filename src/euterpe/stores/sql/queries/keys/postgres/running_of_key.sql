-- takes: limit_key, limit
-- returns: id, type, state, worker_id, count
-- locks: none
-- Who holds the places of this concurrency key: all of them counted, the first few named.
SELECT CAST(j.id AS TEXT), j.type, j.state, j.worker_id, COUNT(*) OVER ()
FROM inbox_jobs AS j
WHERE {{is_running}} AND j.concurrency_key IS NOT NULL AND {{limit_key}} = :limit_key
ORDER BY j.seq LIMIT :limit
