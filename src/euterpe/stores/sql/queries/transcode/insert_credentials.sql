-- takes: job_id, requester_id, locations, source_bucket, source_key, destination_bucket, destination_prefix, refresh_url, expires_at,
--     encrypted, dek_wrapped, kek_id, encryption_version
-- returns: nothing
-- locks: waits
-- The credentials of a new job; a submission that is repeated finds them there already.
INSERT INTO euterpe_transcode_credentials AS c
    (job_id, requester_id, credential_version, locations, source_bucket, source_key, destination_bucket,
     destination_prefix, refresh_url, expires_at, created_at, updated_at, storage_creds_encrypted,
     storage_creds_dek_wrapped, storage_creds_kek_id, storage_creds_encryption_version)
VALUES (:job_id, :requester_id, 1, :locations, :source_bucket, :source_key, :destination_bucket,
     :destination_prefix, :refresh_url, :expires_at, {{now}}, {{now}}, :encrypted, :dek_wrapped, :kek_id,
     :encryption_version)
ON CONFLICT (job_id) DO NOTHING
