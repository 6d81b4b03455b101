-- takes: id
-- returns: claim_version, log
-- locks: none
-- What is kept of a job's log lines, first attempt to last.
SELECT claim_version, log FROM euterpe_attempt_logs WHERE job_id = :id ORDER BY claim_version
