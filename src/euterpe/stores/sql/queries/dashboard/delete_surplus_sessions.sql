-- takes: key_prefix, keep
-- returns: nothing
-- locks: waits
-- The sessions of a key but for the newest.
DELETE FROM euterpe_sessions
WHERE key_prefix = :key_prefix
  AND token_hash NOT IN (SELECT s.token_hash FROM euterpe_sessions AS s
                         WHERE s.key_prefix = :key_prefix
                         ORDER BY s.created_at DESC, s.token_hash LIMIT :keep)
