-- The common end, on its own: a third of the arrays of `settle`. The attempt stays on the job's row.
UPDATE inbox_jobs AS j
SET state = 'completed', result = i.result, error = NULL, completed_at = {{now}},
    lease_expires_at = NULL, updated_at = {{now}}, transitions = j.transitions + 1
FROM unnest(CAST(:id AS uuid[]), CAST(:claim_version AS bigint[]), CAST(:result AS bytea[]))
    AS i (id, claim_version, result)
WHERE j.id = i.id AND j.claim_version = i.claim_version AND j.lease_expires_at IS NOT NULL
RETURNING {{moved_columns}}, j.claim_version
