-- takes: token_hash
-- returns: nothing
-- locks: waits
-- A sign-out.
DELETE FROM euterpe_sessions WHERE token_hash = :token_hash
