-- takes: grace_us, id
-- returns: webhook_secret_columns
-- locks: waits
-- A secret signs no more from a moment on, which a later call may bring forward and never put off.
UPDATE euterpe_webhook_secrets AS s
SET retired_at = CASE WHEN s.retired_at IS NULL OR s.retired_at > {{now}} + CAST(:grace_us AS bigint)
                      THEN {{now}} + CAST(:grace_us AS bigint) ELSE s.retired_at END
WHERE s.id = :id
RETURNING {{webhook_secret_columns}}
