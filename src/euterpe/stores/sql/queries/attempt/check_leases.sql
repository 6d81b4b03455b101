-- takes: ids
-- returns: id, claim_version, lease_expires_at, cancel_asked
-- locks: none
-- What a heartbeat would find of these jobs, read only.
SELECT CAST(j.id AS TEXT), j.claim_version, j.lease_expires_at, j.cancel_version = j.claim_version
FROM inbox_jobs AS j WHERE j.id {{in ids uuid}} AND j.lease_expires_at IS NOT NULL
