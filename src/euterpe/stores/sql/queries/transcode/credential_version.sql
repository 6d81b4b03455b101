-- takes: job_id
-- returns: credential_version
-- locks: none
-- What a worker polls while it waits for fresh credentials.
SELECT c.credential_version FROM euterpe_transcode_credentials AS c WHERE c.job_id = :job_id
