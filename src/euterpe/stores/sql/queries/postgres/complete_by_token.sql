-- What HTTP workers completed, fenced by version, token and deadline, if it needs nothing more: a job with dependents, a
-- callback, a key or declared stages, or that somebody holds, is left for `settle`. The attempt stays on the job's row.
-- Ids and versions come as texts, in order, hashes one behind the other; :results is empty where all have the same :result.
WITH free AS MATERIALIZED (
    SELECT w.ctid AS at, COALESCE(i.result, :result) AS result,
           substring(CAST(:outcome_hashes AS bytea) FROM CAST(32 * i.place - 31 AS integer) FOR 32) AS outcome_hash
    FROM unnest(CAST(string_to_array(:ids, ',') AS uuid[]), CAST(string_to_array(:claim_versions, ',') AS bigint[]),
                CAST(:results AS bytea[])) WITH ORDINALITY
        AS i (id, claim_version, result, place)
    JOIN inbox_jobs AS w ON w.id = i.id
    WHERE w.claim_version = i.claim_version AND w.lease_expires_at IS NOT NULL
      AND w.lease_token_hash = substring(CAST(:token_hashes AS bytea) FROM CAST(32 * i.place - 31 AS integer) FOR 32)
      AND w.started_at + w.execution_timeout_us >= {{now}}
      AND NOT w.has_dependents AND w.callback_url IS NULL AND w.concurrency_key IS NULL AND w.stages IS NULL
    FOR NO KEY UPDATE OF w SKIP LOCKED
)
UPDATE inbox_jobs AS j
SET state = 'completed', result = free.result, error = NULL, completed_at = {{now}}, lease_expires_at = NULL,
    updated_at = {{now}}, outcome_hash = free.outcome_hash, transitions = j.transitions + 1
FROM free
WHERE j.ctid = free.at
RETURNING CAST(j.id AS text), j.queue, j.type, j.started_at
