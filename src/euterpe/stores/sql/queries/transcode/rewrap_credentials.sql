-- takes: dek_wrapped, kek_id, job_id, credential_version, old_kek_id, old_dek_wrapped
-- returns: job_id
-- locks: waits
-- Another wrap for the same blob, unless someone has replaced or rewrapped it meanwhile.
UPDATE euterpe_transcode_credentials AS c SET storage_creds_dek_wrapped = :dek_wrapped, storage_creds_kek_id = :kek_id
WHERE c.job_id = :job_id AND c.credential_version = :credential_version AND c.storage_creds_kek_id = :old_kek_id
    AND c.storage_creds_dek_wrapped = :old_dek_wrapped
RETURNING c.job_id
