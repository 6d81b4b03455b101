-- The end of plain jobs, fenced, for a whole batch: what has dependents by now is left for `settle`. The attempt stays on
-- the job's row.
UPDATE inbox_jobs AS j
SET state = 'completed', result = CAST(i.result AS BLOB), error = NULL, completed_at = :now, lease_expires_at = NULL,
    updated_at = :now, transitions = j.transitions + 1
FROM {{rows id claim_version result}} AS i
WHERE j.id = i.id AND j.claim_version = i.claim_version AND j.lease_expires_at IS NOT NULL AND NOT j.has_dependents
