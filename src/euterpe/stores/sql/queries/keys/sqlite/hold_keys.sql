-- takes: rows of name
-- returns: nothing
-- locks: waits
-- The fronts of these keys are forgotten; `admit` finds them anew. The single writer needs no lock, and what has stopped running is counted.
DELETE FROM euterpe_key_fronts WHERE name IN (SELECT name FROM {{rows name}})
