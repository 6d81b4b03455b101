-- How one attempt ended and who may ask for it again.
SELECT outcome, state, lease_token_hash, outcome_hash
FROM job_attempts WHERE job_id = :id AND claim_version = :claim_version
