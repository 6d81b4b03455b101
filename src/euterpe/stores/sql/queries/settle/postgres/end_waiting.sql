-- takes: rows of id, claim_version, from_state, state, error, fingerprint
-- returns: moved_columns, claim_version, queue, type
-- locks: waits
-- ends: jobs
-- End jobs that are not running (cancel, lifetime, spent budget). Compare-and-set on version and state.
WITH ended AS (
    UPDATE inbox_jobs AS j
    SET state = i.state, listed = i.state, error = i.error, completed_at = {{now}}, updated_at = {{now}},
        fingerprint = i.fingerprint, failed_at = CASE WHEN i.fingerprint IS NOT NULL THEN {{now}} END,
        pending_dependencies = 0, transitions = j.transitions + 1
    FROM unnest(CAST(:id AS uuid[]), CAST(:claim_version AS bigint[]), CAST(:from_state AS text[]), CAST(:state AS text[]),
                CAST(:error AS text[]), CAST(:fingerprint AS text[]))
        AS i (id, claim_version, from_state, state, error, fingerprint)
    WHERE j.id = i.id AND j.claim_version = i.claim_version AND j.state = i.from_state
    RETURNING j.seq, j.id, j.requester_id, j.queue, j.type, j.priority, j.state, j.has_dependents, j.callback_url, j.callback_events,
              j.concurrency_key, j.claim_version, i.from_state
), leaving AS (SELECT * FROM ended WHERE from_state = 'scheduled'), {{left}}
SELECT {{moved_columns}}, j.claim_version, j.queue, j.type FROM ended AS j
