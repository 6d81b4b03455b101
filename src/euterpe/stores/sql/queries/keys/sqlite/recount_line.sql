-- takes: each name
-- returns: found
-- locks: none
-- Counted whenever it is asked for.
SELECT 1 WHERE :name IS NULL
