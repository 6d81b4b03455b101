-- takes: each claim_version, refund, outcome, error, outcome_hash, id
-- returns: nothing
-- locks: waits
-- An attempt that did not complete its job, as history. Reads what the settle of the same transaction left on the job's row.
INSERT INTO euterpe_ended_attempts (job_id, claim_version, attempt, worker_id, started_at, ended_at, outcome, state,
                            error, outcome_hash)
SELECT j.id, :claim_version, j.attempt_count + :refund, j.worker_id, j.started_at, j.updated_at, :outcome,
       j.state, :error, :outcome_hash
FROM inbox_jobs AS j
WHERE j.id = :id
