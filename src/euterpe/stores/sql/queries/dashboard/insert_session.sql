-- takes: token_hash, key_prefix, lifetime_us
-- returns: nothing
-- locks: waits
-- A sign-in: the cookie's hash and the key that it stands for.
INSERT INTO euterpe_sessions (token_hash, key_prefix, created_at, expires_at)
VALUES (:token_hash, :key_prefix, {{now}}, {{now}} + :lifetime_us)
