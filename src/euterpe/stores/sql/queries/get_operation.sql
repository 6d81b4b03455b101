SELECT {{operation_columns}} FROM euterpe_operations AS o WHERE o.id = :id
