-- takes: ids
-- returns: value
-- locks: none
-- The single writer waits for nobody's rows.
SELECT value FROM json_each(:ids)
