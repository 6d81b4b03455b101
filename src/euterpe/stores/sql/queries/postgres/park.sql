-- Undo claims of keys that are at their limit (parked: out of the claim index until a job of that key ends) or that
-- somebody else is just counting (not parked: the next claim may have them).
-- Nobody saw these claims: see the shared text.
UPDATE inbox_jobs AS j
SET state = 'scheduled', parked = (i.parked = 1), attempt_count = j.attempt_count - 1, lease_expires_at = NULL,
    claim_version = j.claim_version - 1, worker_id = NULL, stage = NULL, started_at = NULL, heartbeat_at = NULL,
    updated_at = {{now}}, transitions = j.transitions - 1
FROM unnest(CAST(:id AS uuid[]), CAST(:claim_version AS bigint[]), CAST(:parked AS integer[]))
    AS i (id, claim_version, parked)
WHERE j.id = i.id AND j.claim_version = i.claim_version AND j.lease_expires_at IS NOT NULL
