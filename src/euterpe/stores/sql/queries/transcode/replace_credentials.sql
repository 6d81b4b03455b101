-- takes: refresh_id, expires_at, encrypted, dek_wrapped, kek_id, encryption_version, job_id, requester_id, seen
-- returns: transcode/credential_columns
-- locks: waits
-- Fresh credentials in place of the version that was seen, while the job has not ended.
UPDATE euterpe_transcode_credentials AS c
SET credential_version = c.credential_version + 1, refresh_id = :refresh_id, decrypt_failures = 0,
    expires_at = :expires_at, updated_at = {{now}}, storage_creds_encrypted = :encrypted,
    storage_creds_dek_wrapped = :dek_wrapped, storage_creds_kek_id = :kek_id,
    storage_creds_encryption_version = :encryption_version
WHERE c.job_id = :job_id AND c.requester_id = :requester_id AND c.credential_version = :seen
    AND EXISTS (SELECT 1 FROM inbox_jobs AS j WHERE j.id = c.job_id
                AND j.state NOT IN ('completed', 'failed', 'dead_letter', 'cancelled'))
RETURNING {{transcode/credential_columns}}
