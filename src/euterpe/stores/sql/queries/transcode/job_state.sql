-- takes: job_id, requester_id
-- returns: state
-- locks: none
-- Whether a job has ended; none where it is unknown to this requester.
SELECT j.state FROM inbox_jobs AS j WHERE j.id = :job_id AND j.requester_id = :requester_id
