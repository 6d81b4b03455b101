-- takes: job_id
-- returns: job_id
-- locks: waits
-- The job has ended: what was sealed for it goes, what is no secret stays.
UPDATE euterpe_transcode_credentials AS c
SET storage_creds_encrypted = NULL, storage_creds_dek_wrapped = NULL, storage_creds_kek_id = NULL,
    storage_creds_encryption_version = NULL, updated_at = {{now}}
WHERE c.job_id = :job_id AND c.storage_creds_encrypted IS NOT NULL
RETURNING c.job_id
