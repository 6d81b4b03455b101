-- takes: names
-- returns: nothing
-- locks: waits
-- Of these keys, which are held, those that nobody uses.
DELETE FROM euterpe_keys AS k
WHERE k.name = ANY (CAST(:names AS text[])) AND k.running = 0 AND k.in_line = 0
  AND (SELECT l.seq FROM euterpe_key_line AS l WHERE l.key = k.name LIMIT 1) IS NULL
