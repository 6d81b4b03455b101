-- takes: rows of id, claim_version, state, outcome, result, error, delay_us, refund, release, take_away, outcome_hash, fingerprint, in_time
-- returns: moved_columns, claim_version, queue, type, requester_id, unique_key
-- locks: skips
-- ends: jobs
-- End attempts, fenced, and write those that did not complete their job as history, in one statement. A retry or
-- release of a claim that was asked to cancel ends cancelled instead. Rows that do not come back were stale, or somebody
-- holds them: their neighbours must not wait for that. `in_time`: refused after the deadline of the attempt.
WITH input AS MATERIALIZED (
    SELECT i.*
    FROM unnest(CAST(:id AS uuid[]), CAST(:claim_version AS bigint[]), CAST(:state AS text[]),
                CAST(:outcome AS text[]), CAST(:result AS bytea[]), CAST(:error AS text[]),
                CAST(:delay_us AS bigint[]), CAST(:refund AS integer[]), CAST(:release AS integer[]),
                CAST(:take_away AS integer[]), CAST(:outcome_hash AS bytea[]), CAST(:fingerprint AS text[]),
                CAST(:in_time AS boolean[]))
        AS i (id, claim_version, state, outcome, result, error, delay_us, refund, release, take_away, outcome_hash,
              fingerprint, in_time)
    JOIN inbox_jobs AS w ON w.id = i.id
    WHERE w.claim_version = i.claim_version AND w.lease_expires_at IS NOT NULL
      AND (NOT i.in_time OR w.started_at + w.execution_timeout_us >= {{now}})
    FOR NO KEY UPDATE OF w SKIP LOCKED
), settled AS (
    UPDATE inbox_jobs AS j
    SET state = CASE WHEN j.cancel_version = j.claim_version AND i.state IN ('retrying', 'scheduled')
                     THEN 'cancelled' ELSE i.state END,
        result = i.result,
        error = COALESCE(i.error, CASE WHEN i.state = 'completed' THEN NULL ELSE j.error END),
        run_at = CASE WHEN i.state = 'retrying' AND j.cancel_version IS DISTINCT FROM j.claim_version
                      THEN {{now}} + i.delay_us ELSE j.run_at END,
        scheduled_at = CASE WHEN i.state = 'scheduled' AND j.cancel_version IS DISTINCT FROM j.claim_version
                            THEN {{now}} ELSE j.scheduled_at END,
        completed_at = CASE WHEN i.state IN ('retrying', 'scheduled')
                             AND j.cancel_version IS DISTINCT FROM j.claim_version THEN NULL ELSE {{now}} END,
        attempt_count = j.attempt_count - i.refund, release_count = j.release_count + i.release,
        claim_version = j.claim_version + i.take_away,
        lease_expires_at = NULL, updated_at = {{now}},
        outcome_hash = CASE i.state WHEN 'completed' THEN i.outcome_hash END,
        listed = CASE WHEN j.cancel_version = j.claim_version AND i.state IN ('retrying', 'scheduled') THEN 'cancelled'
                      WHEN i.state NOT IN ('scheduled', 'completed') THEN i.state END,
        fingerprint = i.fingerprint, failed_at = CASE WHEN i.fingerprint IS NOT NULL THEN {{now}} END,
        transitions = j.transitions + CASE i.state WHEN 'dead_letter' THEN 2 ELSE 1 END
    FROM input AS i
    WHERE j.id = i.id AND j.claim_version = i.claim_version AND j.lease_expires_at IS NOT NULL
    RETURNING j.id, j.requester_id, j.state, j.has_dependents, j.callback_url, j.callback_events, j.concurrency_key,
              j.attempt_count + i.refund AS attempt, j.worker_id, j.started_at, j.updated_at,
              i.claim_version, i.outcome, i.error, i.outcome_hash, j.queue, j.type,
              j.unique_key, j.seq, j.priority, j.expires_at, j.scheduled_at, j.max_attempts, j.concurrency_limit
), closed AS (
    INSERT INTO euterpe_ended_attempts (job_id, claim_version, attempt, worker_id, started_at, ended_at, outcome, state,
                                error, outcome_hash)
    SELECT id, claim_version, attempt, worker_id, started_at, updated_at, outcome, state, error,
           outcome_hash
    FROM settled WHERE state <> 'completed'
), entering AS (SELECT * FROM settled), {{enter}}
SELECT {{moved_columns}}, j.claim_version, j.queue, j.type, j.requester_id, j.unique_key FROM settled AS j
