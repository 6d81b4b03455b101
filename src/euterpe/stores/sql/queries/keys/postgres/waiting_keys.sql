-- takes: after, limit
-- returns: name
-- locks: none
-- The next keys in the order of names.
SELECT k.name FROM euterpe_keys AS k WHERE k.name > :after ORDER BY k.name LIMIT :limit
