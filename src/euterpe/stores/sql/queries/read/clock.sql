-- takes: nothing
-- returns: now
-- locks: none
-- The time every lease and due decision goes by.
SELECT {{now}}
