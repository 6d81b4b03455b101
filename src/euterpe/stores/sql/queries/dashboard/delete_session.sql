-- A sign-out.
DELETE FROM euterpe_sessions WHERE token_hash = :token_hash
