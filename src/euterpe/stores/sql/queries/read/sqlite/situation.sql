-- takes: id
-- returns: id, requester_id, queue, type, state, priority, seq, attempt_count, max_attempts, run_at, expires_at, started_at, completed_at,
--     lease_expires_at, worker_id, cancel_asked, pending_dependencies, concurrency_key, concurrency_limit, waits_for_key, error,
--     queue_paused, type_paused, now
-- locks: none
-- One job without what is large, and whether its queue or its type is paused.
SELECT CAST(j.id AS TEXT), j.requester_id, j.queue, j.type, j.state, j.priority, j.seq, j.attempt_count, j.max_attempts,
       j.run_at, j.expires_at, j.started_at, j.completed_at, j.lease_expires_at, j.worker_id,
       COALESCE(j.cancel_version = j.claim_version, FALSE), j.pending_dependencies, j.concurrency_key,
       j.concurrency_limit, ({{waits_for_key}}) OR (j.state = 'scheduled' AND j.line <> ''
           AND (SELECT {{running}} FROM euterpe_key_fronts AS f WHERE f.name = j.line AND f.queue = j.queue AND f.type = j.type)
             + (SELECT COUNT(*) FROM (SELECT 1 FROM inbox_jobs AS x INDEXED BY inbox_jobs_line
                                      WHERE x.line = j.line AND x.queue = j.queue AND x.type = j.type AND x.state || '' = 'scheduled'
                                        AND (x.priority, x.seq) < (j.priority, j.seq) LIMIT 1000)) >= j.concurrency_limit), j.error,
       EXISTS (SELECT 1 FROM euterpe_pauses AS p WHERE p.kind = 'queue' AND p.name = j.queue),
       EXISTS (SELECT 1 FROM euterpe_pauses AS p WHERE p.kind = 'type' AND p.name = j.type),
       {{now}}
FROM inbox_jobs AS j WHERE j.id = :id
