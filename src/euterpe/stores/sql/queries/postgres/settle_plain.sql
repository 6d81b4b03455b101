-- End jobs that completed and may have dependents, which `release_and_claim` looks for next, in the same transaction. One with a
-- callback or a key is left for `settle_completed`.
-- Waits for held rows as `exchange` does, and takes its parameters. It answers with one row: how many were settled, which (only if not
-- all), and those that have dependents.
WITH settled AS (
    UPDATE inbox_jobs AS j
    SET state = 'completed', result = COALESCE(i.result, :result), error = NULL, completed_at = {{now}},
        lease_expires_at = NULL, updated_at = {{now}}, transitions = j.transitions + 1
    FROM unnest(CAST(string_to_array(:ids, ',') AS uuid[]), CAST(string_to_array(:claim_versions, ',') AS bigint[]),
                CAST(:results AS bytea[]))
        AS i (id, claim_version, result)
    WHERE j.id = i.id AND j.claim_version = i.claim_version AND j.lease_expires_at IS NOT NULL
      AND j.callback_url IS NULL AND j.concurrency_key IS NULL
      AND (SELECT set_config('lock_timeout', CAST(CAST(:wait_ms AS integer) AS text), true) <> '')
    RETURNING j.id, j.claim_version, j.has_dependents
), {{settled_count}}
SELECT done.count, done.ids, done.versions,
       ARRAY(SELECT CAST(s.id AS text) FROM settled AS s WHERE s.has_dependents)
FROM done
