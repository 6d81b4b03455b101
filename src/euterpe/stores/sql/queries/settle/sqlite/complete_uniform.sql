-- takes: result, outcome_hash, seqs, ids, claim_version, simple
-- returns: nothing
-- locks: waits
-- `complete` for jobs that end alike, with one result and under one claim version: a list of numbers and one of ids takes a third of the time of rows of
-- six values.
UPDATE inbox_jobs AS j
SET state = 'completed', result = :result, error = NULL, completed_at = :now, lease_expires_at = NULL,
    updated_at = :now, outcome_hash = :outcome_hash, transitions = j.transitions + 1
WHERE j.seq IN (SELECT value FROM json_each(:seqs)) AND +j.id IN (SELECT value FROM json_each(:ids))
  AND j.claim_version = :claim_version AND j.lease_expires_at IS NOT NULL
  AND (:outcome_hash IS NULL OR j.started_at + j.execution_timeout_us >= :now)
  AND NOT (:simple AND ((j.has_dependents AND :simple = 1) OR j.callback_url IS NOT NULL))
