-- Undo a claim that went over its key's limit: out of the claim index until a job of that key ends.
UPDATE inbox_jobs
SET state = 'scheduled', parked = TRUE, attempt_count = attempt_count - 1, lease_expires_at = NULL,
    updated_at = {{now}}, transitions = transitions - 1
WHERE id = :id AND claim_version = :claim_version AND lease_expires_at IS NOT NULL
