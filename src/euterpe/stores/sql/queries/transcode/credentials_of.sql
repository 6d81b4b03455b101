-- takes: job_id
-- returns: transcode/credential_columns
-- locks: none
-- The credentials of a job, still sealed.
SELECT {{transcode/credential_columns}} FROM euterpe_transcode_credentials AS c WHERE c.job_id = :job_id
