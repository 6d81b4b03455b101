-- takes: work_key, job_id, claim_version
-- returns: found
-- locks: waits
-- Take work that equal requests share, under a current claim: nobody has begun it, or whoever did has lost its claim.
INSERT INTO euterpe_transcode_shared_work AS w (requester_id, work_key, job_id, claim_version, begun_at)
SELECT j.requester_id, :work_key, j.id, j.claim_version, {{now}} FROM inbox_jobs AS j
WHERE j.id = :job_id AND j.claim_version = :claim_version AND j.lease_expires_at IS NOT NULL
ON CONFLICT (requester_id, work_key) DO UPDATE
SET job_id = excluded.job_id, claim_version = excluded.claim_version, begun_at = excluded.begun_at
WHERE w.result IS NULL AND NOT EXISTS (
    SELECT 1 FROM inbox_jobs AS o
    WHERE o.id = w.job_id AND o.claim_version = w.claim_version AND o.lease_expires_at IS NOT NULL
        AND (o.id <> excluded.job_id OR o.claim_version <> excluded.claim_version)
)
RETURNING 1
