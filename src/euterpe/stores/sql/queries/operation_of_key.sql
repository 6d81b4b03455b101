SELECT {{operation_columns}} FROM euterpe_operations AS o WHERE o.ordered_by = :ordered_by AND o.idempotency_key = :key
