-- takes: prefix
-- returns: api_key_columns
-- locks: waits
-- A key that opens nothing any more; the first revocation's time is kept.
UPDATE euterpe_api_keys AS k SET revoked_at = COALESCE(k.revoked_at, {{now}}) WHERE k.prefix = :prefix
RETURNING {{api_key_columns}}
