-- takes: id, claim_version, outcome, error
-- returns: state
-- locks: none
-- What a job became by this very attempt, if it was closed in just this way: a settle that is repeated after a lost answer.
SELECT state FROM job_attempts
WHERE job_id = :id AND claim_version = :claim_version AND outcome = :outcome
  AND error IS NOT DISTINCT FROM CAST(:error AS TEXT)
