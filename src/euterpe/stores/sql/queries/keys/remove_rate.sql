-- takes: name
-- returns: name
-- locks: waits
-- The key has no rate any more.
DELETE FROM euterpe_key_rates WHERE name = :name RETURNING name
