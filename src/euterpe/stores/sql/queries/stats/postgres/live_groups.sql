-- takes: state, limit, requester_id
-- returns: queue, type, count, min_scheduled_at
-- locks: none
-- Jobs of a state that has not ended, the oldest up to a limit: by queue and type, and since when the first is there.
SELECT j.queue, j.type, COUNT(*), MIN(COALESCE(j.scheduled_at, j.created_at))
FROM inbox_jobs AS j
WHERE j.seq = ANY (ARRAY(
    (SELECT w.seq FROM inbox_jobs AS w
     WHERE w.listed IS NOT NULL AND (w.listed, w.seq) > (CAST(:state AS text), 0) AND w.listed <= CAST(:state AS text)
     ORDER BY w.listed, w.seq LIMIT :limit)
    UNION ALL
    (SELECT j.seq FROM inbox_jobs AS j WHERE CAST(:state AS text) = 'running' AND {{is_running}} ORDER BY j.seq LIMIT :limit)
    UNION ALL
    (SELECT n.seq FROM ({{some_waiting}}) AS n WHERE CAST(:state AS text) = 'scheduled')))
  AND j.state = CAST(:state AS text) AND (CAST(:requester_id AS TEXT) IS NULL OR j.requester_id = :requester_id)
GROUP BY j.queue, j.type
