-- takes: requester_id
-- returns: webhook_secret_columns
-- locks: none
-- The secrets of a requester that still sign, oldest first.
SELECT {{webhook_secret_columns}} FROM euterpe_webhook_secrets AS s
WHERE s.requester_id = :requester_id AND (s.retired_at IS NULL OR s.retired_at > {{now}})
ORDER BY s.created_at, s.id
