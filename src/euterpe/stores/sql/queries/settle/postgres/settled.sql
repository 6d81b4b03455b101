settled AS (
    UPDATE inbox_jobs AS j
    SET state = 'completed', result = COALESCE(i.result, :result), error = NULL, completed_at = {{now}},
        outcome_hash = substring(CAST(:outcome_hashes AS bytea) FROM CAST(32 * i.place - 31 AS integer) FOR 32),
        lease_expires_at = NULL, updated_at = {{now}}, transitions = j.transitions + 1
    FROM unnest(CAST(string_to_array(:seqs, ',') AS bigint[]), CAST(string_to_array(:ids, ',') AS uuid[]),
                CAST(string_to_array(:claim_versions, ',') AS bigint[]), CAST(:results AS bytea[])) WITH ORDINALITY
        AS i (seq, id, claim_version, result, place)
    WHERE j.seq = i.seq AND j.id = i.id AND j.claim_version = i.claim_version AND j.lease_expires_at IS NOT NULL
      AND (CAST(:outcome_hashes AS bytea) IS NULL OR j.started_at + j.execution_timeout_us >= {{now}})
      AND NOT j.has_dependents AND j.callback_url IS NULL AND j.concurrency_key IS NULL
      AND (SELECT set_config('lock_timeout', CAST(CAST(:wait_ms AS integer) AS text), true) <> '')
    RETURNING j.id, j.claim_version
), done AS MATERIALIZED (
    SELECT c.count,
           CASE WHEN c.count < CAST(:settling AS integer) THEN ARRAY(SELECT CAST(s.id AS text) FROM settled AS s) END AS ids,
           CASE WHEN c.count < CAST(:settling AS integer) THEN ARRAY(SELECT s.claim_version FROM settled AS s) END AS versions
    FROM (SELECT COUNT(*) AS count FROM settled) AS c
)
