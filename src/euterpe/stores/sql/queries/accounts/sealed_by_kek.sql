-- takes: nothing
-- returns: kek_id, count
-- locks: none
-- How many secrets each key-encryption key wraps.
SELECT kek_id, COUNT(*) FROM euterpe_webhook_secrets GROUP BY kek_id ORDER BY kek_id
