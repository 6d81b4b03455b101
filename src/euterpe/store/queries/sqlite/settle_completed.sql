-- The common end, on its own: a third of the parameters of `settle`. The attempt stays on the job's row.
UPDATE inbox_jobs AS j
SET state = 'completed', result = :result, error = NULL, completed_at = :now, lease_expires_at = NULL,
    updated_at = :now, transitions = j.transitions + 1
WHERE j.id = :id AND j.claim_version = :claim_version AND j.lease_expires_at IS NOT NULL
RETURNING {{moved_columns}}, j.claim_version
