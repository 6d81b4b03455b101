-- takes: id
-- returns: claim_version, attempt, worker_id, started_at, ended_at, outcome, http_status, answer, error
-- locks: none
-- The log of an event's POSTs.
SELECT claim_version, attempt, worker_id, started_at, ended_at, outcome, http_status, answer, error
FROM euterpe_outbox_deliveries WHERE event_id = :id ORDER BY claim_version
