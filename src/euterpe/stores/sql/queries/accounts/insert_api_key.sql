-- takes: prefix, requester_id, secret_hash, scopes, lifetime_us
-- returns: api_key_columns
-- locks: waits
-- A key, its secret hashed. Without a lifetime it never expires.
INSERT INTO euterpe_api_keys AS k (prefix, requester_id, secret_hash, scopes, created_at, expires_at)
VALUES (:prefix, :requester_id, :secret_hash, :scopes, {{now}}, {{now}} + CAST(:lifetime_us AS bigint))
RETURNING {{api_key_columns}}
