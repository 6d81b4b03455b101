-- takes: pause_ms
-- returns: waited
-- locks: none
-- Wait a moment, in the middle of a transaction, for a unique key that a short one holds.
SELECT pg_sleep(CAST(:pause_ms AS integer) / 1000.0) IS NULL
