-- takes: keep_us, limit
-- returns: found
-- locks: skips
-- Operations that ended long ago.
DELETE FROM euterpe_operations
WHERE id IN (SELECT o.id FROM euterpe_operations AS o
             WHERE o.created_at < {{now}} - :keep_us AND o.completed_at < {{now}} - :keep_us
             ORDER BY o.created_at LIMIT :limit {{skip_locked}})
RETURNING 1
