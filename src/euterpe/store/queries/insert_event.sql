-- An event, in the transaction of the change it tells of.
INSERT INTO job_outbox_events (id, job_id, requester_id, sequence, type, url, origin, body, state, run_at, created_at, updated_at)
VALUES (:id, :job_id, :requester_id, :sequence, :type, :url, :origin, :body, 'scheduled', :at, :at, :at)
