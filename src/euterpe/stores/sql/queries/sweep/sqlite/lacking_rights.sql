-- takes: nothing
-- returns: lacking
-- locks: none
-- A file has no users: who can open it can change it, or is told so when it is opened.
SELECT NULL WHERE 0
