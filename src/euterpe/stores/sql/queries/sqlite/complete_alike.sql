-- `complete` for jobs that end alike, with one result and under one claim version: a list of ids is read in a third of the time that rows of
-- several values take.
UPDATE inbox_jobs AS j
SET state = 'completed', result = :result, error = NULL, completed_at = :now, lease_expires_at = NULL,
    updated_at = :now, transitions = j.transitions + 1
WHERE j.id IN (SELECT value FROM json_each(:ids)) AND j.claim_version = :claim_version AND j.lease_expires_at IS NOT NULL
  AND NOT (:simple AND (j.has_dependents OR j.callback_url IS NOT NULL))
