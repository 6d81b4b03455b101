-- The common end, on its own: a third of the arrays of `settle`, and a fifth less time in the server.
WITH settled AS (
    UPDATE inbox_jobs AS j
    SET state = 'completed', result = i.result, error = NULL, completed_at = {{now}},
        lease_expires_at = NULL, updated_at = {{now}}, transitions = j.transitions + 1
    FROM unnest(CAST(:id AS uuid[]), CAST(:claim_version AS bigint[]), CAST(:result AS bytea[]))
        AS i (id, claim_version, result)
    WHERE j.id = i.id AND j.claim_version = i.claim_version AND j.lease_expires_at IS NOT NULL
    RETURNING j.id, j.state, j.has_dependents, j.callback_url, j.callback_events, j.concurrency_key,
              j.attempt_count, j.worker_id, j.started_at, j.updated_at, j.lease_token_hash, j.claim_version
), closed AS (
    INSERT INTO job_attempts (job_id, claim_version, attempt, worker_id, started_at, ended_at, outcome, state,
                              lease_token_hash)
    SELECT id, claim_version, attempt_count, worker_id, started_at, updated_at, 'completed', state, lease_token_hash
    FROM settled
)
SELECT {{moved_columns}}, j.claim_version FROM settled AS j
