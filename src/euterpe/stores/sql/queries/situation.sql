-- One job without what is large, and whether its queue or its type is paused.
SELECT CAST(j.id AS TEXT), j.requester_id, j.queue, j.type, j.state, j.priority, j.seq, j.attempt_count, j.max_attempts,
       j.run_at, j.expires_at, j.started_at, j.completed_at, j.lease_expires_at, j.worker_id,
       COALESCE(j.cancel_version = j.claim_version, FALSE), j.pending_dependencies, j.concurrency_key,
       j.concurrency_limit, j.parked, j.error,
       EXISTS (SELECT 1 FROM euterpe_pauses AS p WHERE p.kind = 'queue' AND p.name = j.queue),
       EXISTS (SELECT 1 FROM euterpe_pauses AS p WHERE p.kind = 'type' AND p.name = j.type),
       {{now}}
FROM {{jobs_now}} AS j WHERE j.id = :id
