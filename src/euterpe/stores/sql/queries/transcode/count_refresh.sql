-- takes: job_id, claim_version
-- returns: refresh_attempts
-- locks: waits
-- One more call to the refresh URL, by a worker whose claim is current.
UPDATE euterpe_transcode_credentials AS c SET refresh_attempts = c.refresh_attempts + 1, updated_at = {{now}}
WHERE c.job_id = :job_id
    AND EXISTS (SELECT 1 FROM inbox_jobs AS j WHERE j.id = c.job_id AND j.claim_version = :claim_version
                AND j.lease_expires_at IS NOT NULL)
RETURNING c.refresh_attempts
