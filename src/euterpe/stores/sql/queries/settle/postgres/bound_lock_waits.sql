-- takes: wait_ms
-- returns: lock_timeout
-- locks: none
-- No statement of this transaction waits longer than this for a lock.
SELECT set_config('lock_timeout', CAST(CAST(:wait_ms AS integer) AS text), true)
