-- What HTTP workers completed, fenced by version, token and deadline, if it needs nothing more: a job with dependents, a callback
-- or a key is left for `settle`. The attempt stays on the job's row.
UPDATE inbox_jobs AS j
SET state = 'completed', result = i.result, error = NULL, completed_at = {{now}}, lease_expires_at = NULL,
    updated_at = {{now}}, outcome_hash = i.outcome_hash, transitions = j.transitions + 1
FROM unnest(CAST(:id AS uuid[]), CAST(:claim_version AS bigint[]), CAST(:token_hash AS bytea[]),
            CAST(:result AS bytea[]), CAST(:outcome_hash AS bytea[]))
    AS i (id, claim_version, token_hash, result, outcome_hash)
WHERE j.id = i.id AND j.claim_version = i.claim_version AND j.lease_token_hash = i.token_hash
  AND j.lease_expires_at IS NOT NULL AND j.started_at + j.execution_timeout_us >= {{now}}
  AND NOT j.has_dependents AND j.callback_url IS NULL AND j.concurrency_key IS NULL
RETURNING CAST(j.id AS text), j.queue, j.started_at
