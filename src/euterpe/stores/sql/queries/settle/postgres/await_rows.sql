-- takes: ids
-- returns: found
-- locks: waits
-- Wait for these jobs' rows, in their order, and hold them; the transaction's `bound_lock_waits` ends the wait.
SELECT 1 FROM inbox_jobs AS j WHERE j.id {{in ids uuid}} ORDER BY j.id {{lock j}}
