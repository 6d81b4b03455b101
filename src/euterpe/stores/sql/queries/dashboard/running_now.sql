-- takes: limit, requester_id
-- returns: id, queue, type, worker_id, stage, started_at, heartbeat_at, lease_expires_at, progress, progress_message
-- locks: none
-- Who runs what. The running set is small: it is what workers hold at once.
SELECT CAST(r.id AS TEXT), r.queue, r.type, r.worker_id, r.stage, r.started_at, r.heartbeat_at, r.lease_expires_at,
       r.progress, r.progress_message
FROM (SELECT * FROM inbox_jobs AS j WHERE {{is_running}} ORDER BY j.seq LIMIT :limit) AS r
WHERE CAST(:requester_id AS TEXT) IS NULL OR r.requester_id = :requester_id
ORDER BY r.seq
