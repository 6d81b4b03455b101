-- The single writer has every key.
SELECT value FROM json_each(:keys)
