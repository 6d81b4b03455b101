-- End jobs that completed and may have concurrency keys, and lock those keys. `claim_keyed` looks for parked jobs next, in the same
-- transaction: whoever parked one before we had its key's lock is seen then. One with a callback or dependents is left for `settle_completed`.
-- Waits for held rows as `exchange` does, and takes its parameters. The locks of keys are waited for as long as any other of our
-- session, and only when all rows are written: who holds a key's lock waits for no row.
-- It answers with one row: how many were settled, which (only if not all), the keys, and how many jobs of each ended.
WITH usual AS MATERIALIZED (
    SELECT current_setting('lock_timeout') AS lock_timeout
), settled AS (
    UPDATE inbox_jobs AS j
    SET state = 'completed', result = COALESCE(i.result, :result), error = NULL, completed_at = {{now}},
        lease_expires_at = NULL, updated_at = {{now}}, transitions = j.transitions + 1
    FROM unnest(CAST(string_to_array(:ids, ',') AS uuid[]), CAST(string_to_array(:claim_versions, ',') AS bigint[]),
                CAST(:results AS bytea[]))
        AS i (id, claim_version, result)
    WHERE j.id = i.id AND j.claim_version = i.claim_version AND j.lease_expires_at IS NOT NULL
      AND NOT j.has_dependents AND j.callback_url IS NULL
      AND (SELECT set_config('lock_timeout', CAST(CAST(:wait_ms AS integer) AS text), true) <> '' FROM usual)
    RETURNING j.id, j.claim_version, {{limit_key}} AS limit_key
), {{settled_count}}, freed AS MATERIALIZED (
    SELECT limit_key AS key, COUNT(*) AS jobs FROM settled WHERE limit_key IS NOT NULL GROUP BY limit_key
), patient AS MATERIALIZED (
    SELECT set_config('lock_timeout', usual.lock_timeout, true) <> '' AS again FROM usual CROSS JOIN done
), locked AS MATERIALIZED (
    SELECT key, jobs, pg_advisory_xact_lock({{key_lock}})
    FROM (SELECT key, jobs FROM freed WHERE (SELECT again FROM patient) ORDER BY key) AS keys
)
SELECT done.count, done.ids, done.versions, ARRAY(SELECT key FROM locked), ARRAY(SELECT jobs FROM locked)
FROM done
