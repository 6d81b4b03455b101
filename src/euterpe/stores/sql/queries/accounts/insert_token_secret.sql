-- takes: secret
-- returns: nothing
-- locks: waits
-- The first one. Two control planes that come at the same time agree on one of theirs.
INSERT INTO euterpe_token_secrets (created_at, secret) VALUES (0, :secret) ON CONFLICT DO NOTHING
