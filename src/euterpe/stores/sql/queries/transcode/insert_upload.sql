-- takes: object_key, upload_id, job_id, claim_version
-- returns: upload_id
-- locks: waits
-- An upload was begun by a worker whose claim is current.
INSERT INTO euterpe_transcode_uploads (job_id, object_key, upload_id, claim_version, created_at)
SELECT j.id, CAST(:object_key AS text), CAST(:upload_id AS text), j.claim_version, {{now}} FROM inbox_jobs AS j
WHERE j.id = :job_id AND j.claim_version = :claim_version AND j.lease_expires_at IS NOT NULL
RETURNING upload_id
