-- `complete` for jobs that end alike, with one result and under one claim version, and stand near each other: they are read in the order of the
-- table, and each id is looked up at its place among the ids, which takes half the time of a list of numbers and a list of ids.
UPDATE inbox_jobs AS j
SET state = 'completed', result = :result, error = NULL, completed_at = :now, lease_expires_at = NULL,
    updated_at = :now, transitions = j.transitions + 1
WHERE j.seq BETWEEN :first AND :last AND +j.id = CAST(substr(:ids, (j.seq - :first) * 36 + 1, 36) AS TEXT)
  AND j.claim_version = :claim_version AND j.lease_expires_at IS NOT NULL
  AND NOT (:simple AND ((j.has_dependents AND :simple = 1) OR j.callback_url IS NOT NULL))
