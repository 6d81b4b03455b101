-- takes: grace_us, prefix
-- returns: api_key_columns
-- locks: waits
-- A rotated key lives on for a grace time, and never longer than it would have lived anyway.
UPDATE euterpe_api_keys AS k
SET expires_at = CASE WHEN k.expires_at IS NULL OR k.expires_at > {{now}} + CAST(:grace_us AS bigint)
                      THEN {{now}} + CAST(:grace_us AS bigint) ELSE k.expires_at END
WHERE k.prefix = :prefix AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > {{now}})
RETURNING {{api_key_columns}}
