-- takes: result, outcome_hashes, seqs, ids, claim_versions, results, wait_ms, settling, limit, prefetch, queues, types, prefetch_types,
--     other_than, lease_ttl_us, overrun_us, worker_ids, worker_id, request, over
-- returns: count, ids, versions, claim, again, at_telling, seq, id, requester_id, queue, type, priority, payload, payload_format,
--     attempt_count, max_attempts, release_count, claim_version, run_at, created_at, scheduled_at, started_at, expires_at,
--     execution_timeout_us, visibility_us, retry_policy, stages, error, checkpoint, tags, correlation_id, callback_events, idempotency_key,
--     dependency, depth, has_dependents, parent_id, replay_of, cancel_version, transitions, callback_url, concurrency_key,
--     concurrency_limit, lease_expires_at, text
-- locks: skips
-- `turn`, for a while after one waited in vain for a row that somebody holds: it passes over such rows. It comes after `scatter`.
WITH {{settled}}, {{kinds}}, {{front_around}}, {{parts}}, {{taken_rows}}, {{entered_running}}, {{keys_taken}}
SELECT done.count, done.ids, done.versions, (SELECT r.claim FROM running AS r),
       ends.again, ends.at_telling, j.*
FROM done CROSS JOIN ends LEFT JOIN taken AS j ON true
