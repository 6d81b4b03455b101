-- takes: rows of id, claim_version, result
-- returns: moved_columns, claim_version
-- locks: skips
-- The common end, on its own: a third of the arrays of `settle`. The attempt stays on the job's row. What somebody holds is
-- left: its neighbours must not wait for it.
WITH free AS MATERIALIZED (
    SELECT w.id, i.claim_version, i.result
    FROM unnest(CAST(:id AS uuid[]), CAST(:claim_version AS bigint[]), CAST(:result AS bytea[]))
        AS i (id, claim_version, result)
    JOIN inbox_jobs AS w ON w.id = i.id
    WHERE w.claim_version = i.claim_version AND w.lease_expires_at IS NOT NULL
    FOR NO KEY UPDATE OF w SKIP LOCKED
)
UPDATE inbox_jobs AS j
SET state = 'completed', result = i.result, error = NULL, completed_at = {{now}},
    lease_expires_at = NULL, updated_at = {{now}}, transitions = j.transitions + 1
FROM free AS i
WHERE j.id = i.id AND j.claim_version = i.claim_version AND j.lease_expires_at IS NOT NULL
RETURNING {{moved_columns}}, j.claim_version
