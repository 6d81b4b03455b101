-- takes: rows of seq, id, claim_version, result, outcome_hash, simple
-- returns: nothing
-- locks: waits
-- The end of jobs that completed, fenced, for a whole batch. Where nobody asked which of them have dependents or a callback by now, those
-- are left for `settle`. The attempt stays on the job's row. Rows are found by `seq`, which is nearer at hand than a random id; the id is asked for
-- as well, because the `seq` of the newest job is given again once that is pruned.
UPDATE inbox_jobs AS j
SET state = 'completed', result = i.result, error = NULL, completed_at = :now, lease_expires_at = NULL,
    updated_at = :now, outcome_hash = i.outcome_hash, transitions = j.transitions + 1
FROM {{rows seq id claim_version result outcome_hash simple}} AS i
WHERE j.seq = i.seq AND +j.id = i.id AND j.claim_version = i.claim_version AND j.lease_expires_at IS NOT NULL
  AND (i.outcome_hash IS NULL OR j.started_at + j.execution_timeout_us >= :now)
  AND NOT (i.simple AND ((j.has_dependents AND i.simple = 1) OR j.callback_url IS NOT NULL))
