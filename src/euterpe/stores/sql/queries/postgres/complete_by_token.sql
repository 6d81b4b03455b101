-- What HTTP workers completed, fenced by version, token and deadline, if it needs nothing more: a job with dependents, a
-- callback, a key or declared stages, or that somebody holds, is left for `settle`. The attempt stays on the job's row.
WITH free AS MATERIALIZED (
    SELECT w.ctid AS at, i.result, i.outcome_hash
    FROM unnest(CAST(:id AS uuid[]), CAST(:claim_version AS bigint[]), CAST(:token_hash AS bytea[]),
                CAST(:result AS bytea[]), CAST(:outcome_hash AS bytea[]))
        AS i (id, claim_version, token_hash, result, outcome_hash)
    JOIN inbox_jobs AS w ON w.id = i.id
    WHERE w.claim_version = i.claim_version AND w.lease_token_hash = i.token_hash AND w.lease_expires_at IS NOT NULL
      AND w.started_at + w.execution_timeout_us >= {{now}}
      AND NOT w.has_dependents AND w.callback_url IS NULL AND w.concurrency_key IS NULL AND w.stages IS NULL
    FOR NO KEY UPDATE OF w SKIP LOCKED
)
UPDATE inbox_jobs AS j
SET state = 'completed', result = free.result, error = NULL, completed_at = {{now}}, lease_expires_at = NULL,
    updated_at = {{now}}, outcome_hash = free.outcome_hash, transitions = j.transitions + 1
FROM free
WHERE j.ctid = free.at
RETURNING CAST(j.id AS text), j.queue, j.started_at
