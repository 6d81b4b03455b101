-- `complete_uniform` for jobs that are far from each other in the table, as those of chains are: a list of numbers and one of ids, which takes a third of
-- the time of rows of five values.
UPDATE inbox_jobs AS j
SET state = 'completed', result = :result, error = NULL, completed_at = :now, lease_expires_at = NULL,
    updated_at = :now, transitions = j.transitions + 1
WHERE j.seq IN (SELECT value FROM json_each(:seqs)) AND +j.id IN (SELECT value FROM json_each(:ids))
  AND j.claim_version = :claim_version AND j.lease_expires_at IS NOT NULL
  AND NOT (:simple AND ((j.has_dependents AND :simple = 1) OR j.callback_url IS NOT NULL))
