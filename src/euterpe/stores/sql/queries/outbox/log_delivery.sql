-- takes: each refund, outcome, http_status, answer, error, id
-- returns: nothing
-- locks: waits
-- One POST, as history. Reads what the settle of the same transaction left on the event's row.
INSERT INTO euterpe_outbox_deliveries (event_id, claim_version, attempt, worker_id, started_at, ended_at, outcome,
                               http_status, answer, error)
SELECT e.id, e.claim_version, e.attempt_count + :refund, e.worker_id, e.started_at, e.updated_at, :outcome,
       :http_status, :answer, :error
FROM job_outbox_events AS e WHERE e.id = :id
