-- takes: keep_us, limit
-- returns: found
-- locks: waits
DELETE FROM euterpe_tombstones
WHERE job_id IN (SELECT job_id FROM euterpe_tombstones WHERE pruned_at <= {{now}} - :keep_us LIMIT :limit)
RETURNING 1
