-- takes: priority, tags, correlation_id, callback_url, id, claim_version, state
-- returns: job_columns
-- locks: waits
-- What a requester may change of a job. The row is held, and its state is the one that was looked at. No state changes, so
-- neither updated_at nor the count of transitions does.
UPDATE inbox_jobs AS j
SET priority = :priority, tags = :tags, correlation_id = :correlation_id, callback_url = :callback_url
WHERE j.id = :id AND j.claim_version = :claim_version AND j.state = :state
RETURNING {{job_columns}}
