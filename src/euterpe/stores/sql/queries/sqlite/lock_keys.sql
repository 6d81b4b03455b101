-- The single writer already takes turns; nothing to lock.
SELECT value FROM json_each(:keys)
