-- takes: result, outcome_hashes, seqs, ids, claim_versions, results, wait_ms, settling, limit, prefetch, queues, types, other_than,
--     prefetch_types, may_tell, lease_ttl_us, overrun_us, worker_ids, worker_id, request, over
-- returns: count, ids, versions, claim, again, at_telling, seq, id, requester_id, queue, type, priority, payload, payload_format,
--     attempt_count, max_attempts, release_count, claim_version, run_at, created_at, scheduled_at, started_at, expires_at,
--     execution_timeout_us, visibility_us, retry_policy, stages, error, checkpoint, tags, correlation_id, callback_events, idempotency_key,
--     dependency, depth, has_dependents, parent_id, replay_of, cancel_version, transitions, callback_url, concurrency_key,
--     concurrency_limit, lease_expires_at, text
-- locks: skips
-- One turn of a worker: end what completed, and claim the next. It ends jobs from which nothing follows; one with dependents, a
-- callback or a concurrency key is left for `settle`. It claims the front of the line.
-- The settling update waits for a row that somebody holds, but no longer than :wait_ms; then the whole statement fails with a lock
-- timeout. So does the claiming one; `turn_around` passes over held rows.
-- Ids, numbers and versions come as texts, in order of numbers; :results is empty where all have the same :result.
-- The job of a place is for the worker that :worker_ids has there; that is empty where all are for :worker_id.
-- The first columns are the same in every row: how many were settled; which, if not all; the number of the claim; whether to ask
-- again at once; whether the line ended at a job that tells. Then comes a job that was taken, or NULLs.
WITH {{settled}}, {{kinds}}, {{front}}, {{parts}}, {{taken_rows}}, {{entered_running}}, {{keys_taken}}
SELECT done.count, done.ids, done.versions, (SELECT r.claim FROM running AS r),
       ends.again, ends.at_telling, j.*
FROM done CROSS JOIN ends LEFT JOIN taken AS j ON true
