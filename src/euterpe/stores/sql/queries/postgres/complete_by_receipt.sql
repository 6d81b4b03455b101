-- What HTTP workers completed under receipts of this process, which knows their tokens (ADR 017): the one write of the jobs' rows. The
-- row is the fence, and the deadline is looked at. A job with more to do, or that is on its row by now, is left. :with_callbacks: of jobs with a
-- callback the events are written next, in the same transaction; such a job is as its submit left it, so its claim tells all that
-- its event says. Token and outcome are kept for a report that comes again. Waits for a held row, but no longer than :wait_ms; then the whole statement fails.
-- Ids and times come as texts, in order, hashes one behind the other; :results is empty where all have the same :result, and
-- :worker_ids where all are :worker_id's. Tells how many were settled, and which, if not all.
WITH settled AS (
    UPDATE inbox_jobs AS j
    SET state = 'completed', result = COALESCE(i.result, :result), error = NULL, completed_at = {{now}}, updated_at = {{now}},
        lease_expires_at = NULL, claim_version = 1, attempt_count = 1, stage = 'claimed', transitions = j.transitions + 2,
        worker_id = COALESCE(i.worker_id, :worker_id), started_at = i.started_at, heartbeat_at = i.started_at,
        lease_token_hash = substring(CAST(:token_hashes AS bytea) FROM CAST(32 * i.place - 31 AS integer) FOR 32),
        outcome_hash = substring(CAST(:outcome_hashes AS bytea) FROM CAST(32 * i.place - 31 AS integer) FOR 32)
    FROM unnest(CAST(string_to_array(:ids, ',') AS uuid[]), CAST(string_to_array(:started, ',') AS bigint[]),
                CAST(:results AS bytea[]), CAST(:worker_ids AS text[])) WITH ORDINALITY
        AS i (id, started_at, result, worker_id, place)
    WHERE j.id = i.id AND j.chunk IS NOT NULL AND j.state || '' = 'scheduled'
      AND i.started_at + j.execution_timeout_us >= {{now}}
      AND NOT j.has_dependents AND j.concurrency_key IS NULL AND j.stages IS NULL
      AND (j.callback_url IS NULL OR CAST(:with_callbacks AS boolean))
      AND (SELECT set_config('lock_timeout', CAST(CAST(:wait_ms AS integer) AS text), true) <> '')
    RETURNING j.id
)
SELECT COUNT(*), CASE WHEN COUNT(*) < CAST(:settling AS integer) THEN array_agg(CAST(id AS text)) END FROM settled
