-- takes: wait_ms
-- returns: lock_timeout
-- locks: none
-- The single writer waits for nobody's rows.
SELECT :wait_ms
