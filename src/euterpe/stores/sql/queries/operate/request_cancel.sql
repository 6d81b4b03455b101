-- takes: claim_version, id
-- returns: id
-- locks: waits
-- Ask the current claim to stop; bound to the claim that was seen.
UPDATE inbox_jobs SET cancel_version = :claim_version
WHERE id = :id AND claim_version = :claim_version AND lease_expires_at IS NOT NULL
RETURNING CAST(id AS TEXT)
