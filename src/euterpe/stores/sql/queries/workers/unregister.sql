-- takes: worker_id
-- returns: nothing
-- locks: waits
-- A worker has ended.
DELETE FROM euterpe_workers WHERE worker_id = :worker_id
