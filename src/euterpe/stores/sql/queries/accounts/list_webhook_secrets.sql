-- takes: requester_id
-- returns: webhook_secret_columns, now
-- locks: none
-- Secrets with the time that decides which of them are over, oldest first, optionally of one requester.
SELECT {{webhook_secret_columns}}, {{now}} FROM euterpe_webhook_secrets AS s
WHERE (CAST(:requester_id AS TEXT) IS NULL OR s.requester_id = :requester_id)
ORDER BY s.created_at, s.id
