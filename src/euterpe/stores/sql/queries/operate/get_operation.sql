-- takes: id
-- returns: operation_columns
-- locks: none
SELECT {{operation_columns}} FROM euterpe_operations AS o WHERE o.id = :id
