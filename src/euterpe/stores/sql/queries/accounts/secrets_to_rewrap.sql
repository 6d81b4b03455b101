-- takes: active, after, limit
-- returns: webhook_secret_columns
-- locks: none
-- Secrets that another key than the active one wraps.
SELECT {{webhook_secret_columns}} FROM euterpe_webhook_secrets AS s
WHERE s.kek_id <> :active AND s.id > :after ORDER BY s.id LIMIT :limit
