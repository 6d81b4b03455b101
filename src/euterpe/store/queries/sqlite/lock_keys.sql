-- The single writer already takes turns; nothing to lock.
SELECT 1 WHERE :keys IS NULL
