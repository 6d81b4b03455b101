-- takes: token_hash
-- returns: api_key_columns, secret_hash, now
-- locks: none
-- The living session of a cookie with its key, as the key is now, and the time that decides about both.
SELECT {{api_key_columns}}, k.secret_hash, {{now}}
FROM euterpe_sessions AS s
JOIN euterpe_api_keys AS k ON k.prefix = s.key_prefix
WHERE s.token_hash = :token_hash AND s.expires_at > {{now}}
