-- takes: ordered_by, key
-- returns: operation_columns
-- locks: none
SELECT {{operation_columns}} FROM euterpe_operations AS o WHERE o.ordered_by = :ordered_by AND o.idempotency_key = :key
