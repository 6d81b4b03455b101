-- takes: progress, message, job_id, claim_version
-- returns: job_columns
-- locks: waits
-- Progress that is told to the requester: a change like a stage's, so that its event has a place in the order.
UPDATE inbox_jobs AS j SET progress = :progress, progress_message = :message, transitions = j.transitions + 1
WHERE j.id = :job_id AND j.claim_version = :claim_version AND j.lease_expires_at IS NOT NULL
RETURNING {{job_columns}}
