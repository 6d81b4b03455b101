-- takes: nothing
-- returns: changed
-- locks: none
-- How many rows the statement before this one wrote.
SELECT changes()
