-- takes: active, after, limit
-- returns: transcode/credential_columns
-- locks: none
-- Credentials that another key than the active one wraps.
SELECT {{transcode/credential_columns}} FROM euterpe_transcode_credentials AS c
WHERE c.storage_creds_encrypted IS NOT NULL AND c.storage_creds_kek_id <> :active AND c.job_id > :after
ORDER BY c.job_id LIMIT :limit
