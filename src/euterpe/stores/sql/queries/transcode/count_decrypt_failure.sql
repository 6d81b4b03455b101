-- takes: job_id, credential_version
-- returns: decrypt_failures
-- locks: waits
-- A seal that did not open, counted for the version that was tried.
UPDATE euterpe_transcode_credentials AS c SET decrypt_failures = c.decrypt_failures + 1, updated_at = {{now}}
WHERE c.job_id = :job_id AND c.credential_version = :credential_version
RETURNING c.decrypt_failures
