-- takes: each state, error, fingerprint, id, claim_version, from_state
-- returns: moved_columns, claim_version, queue, type
-- locks: waits
-- ends: jobs
-- End a job that is not running (cancel, lifetime, spent budget). Compare-and-set on version and state;
-- the state as an expression, since a plain one would let Postgres come by way of every waiting job.
UPDATE inbox_jobs AS j
SET state = :state, error = :error, completed_at = {{now}}, updated_at = {{now}},
    fingerprint = :fingerprint, failed_at = CASE WHEN CAST(:fingerprint AS text) IS NOT NULL THEN {{now}} END,
    pending_dependencies = 0, transitions = j.transitions + 1
WHERE j.id = :id AND j.claim_version = :claim_version AND j.state || '' = :from_state
RETURNING {{moved_columns}}, j.claim_version, j.queue, j.type
