-- takes: kind, name
-- returns: nothing
-- locks: waits
DELETE FROM euterpe_pauses WHERE kind = :kind AND name = :name
