-- takes: id, claim_version
-- returns: state, outcome_hash
-- locks: none
-- How an attempt ended, and the hash of the report that ended it.
SELECT state, outcome_hash FROM job_attempts WHERE job_id = :id AND claim_version = :claim_version
