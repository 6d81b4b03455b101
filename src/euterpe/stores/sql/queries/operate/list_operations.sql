-- takes: ordered_by, limit
-- returns: operation_columns
-- locks: none
-- The newest first.
SELECT {{operation_columns}} FROM euterpe_operations AS o
WHERE (CAST(:ordered_by AS text) IS NULL OR o.ordered_by = :ordered_by)
ORDER BY o.created_at DESC, o.id DESC LIMIT :limit
