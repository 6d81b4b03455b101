-- takes: rows of id, refund, outcome, http_status, answer, error
-- returns: nothing
-- locks: waits
-- POSTs, as history. Reads what the settle of the same transaction left on the events' rows.
INSERT INTO euterpe_outbox_deliveries (event_id, claim_version, attempt, worker_id, started_at, ended_at, outcome,
                               http_status, answer, error)
SELECT e.id, e.claim_version, e.attempt_count + i.refund, e.worker_id, e.started_at, e.updated_at, i.outcome,
       i.http_status, i.answer, i.error
FROM unnest(CAST(:id AS uuid[]), CAST(:refund AS integer[]), CAST(:outcome AS text[]),
            CAST(:http_status AS integer[]), CAST(:answer AS text[]), CAST(:error AS text[]))
    AS i (id, refund, outcome, http_status, answer, error)
JOIN job_outbox_events AS e ON e.id = i.id
