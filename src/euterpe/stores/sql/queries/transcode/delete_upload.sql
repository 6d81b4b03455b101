-- takes: job_id, object_key, upload_id
-- returns: nothing
-- locks: waits
-- An upload was completed or aborted.
DELETE FROM euterpe_transcode_uploads AS u
WHERE u.job_id = :job_id AND u.object_key = :object_key AND u.upload_id = :upload_id
