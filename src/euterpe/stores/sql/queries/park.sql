-- Undo a claim of a key that is at its limit (parked: out of the claim index until a job of that key ends) or that
-- somebody else is just counting (not parked: the next claim may have it).
-- Nobody saw this claim: it is undone in its own transaction, and its version is the next one's. So versions stay the
-- numbers of real attempts, and a job's previous attempt is always the version below.
UPDATE inbox_jobs
SET state = 'scheduled', parked = (:parked = 1), attempt_count = attempt_count - 1, lease_expires_at = NULL,
    claim_version = claim_version - 1, worker_id = NULL, stage = NULL, started_at = NULL, heartbeat_at = NULL,
    updated_at = {{now}}, transitions = transitions - 1
WHERE id = :id AND claim_version = :claim_version AND lease_expires_at IS NOT NULL
