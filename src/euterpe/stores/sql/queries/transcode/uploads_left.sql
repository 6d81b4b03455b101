-- takes: job_id, claim_version
-- returns: object_key, upload_id
-- locks: none
-- What older claims of a job began and never ended.
SELECT u.object_key, u.upload_id FROM euterpe_transcode_uploads AS u
WHERE u.job_id = :job_id AND u.claim_version < :claim_version ORDER BY u.object_key
