-- takes: nothing
-- returns: secret
-- locks: none
-- What lease tokens are signed with, the newest first.
SELECT secret FROM euterpe_token_secrets ORDER BY created_at DESC
