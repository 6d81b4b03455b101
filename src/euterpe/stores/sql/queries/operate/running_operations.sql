-- takes: limit
-- returns: operation_columns
-- locks: none
-- What is to be worked off, the oldest first.
SELECT {{operation_columns}} FROM euterpe_operations AS o WHERE o.state = 'running' ORDER BY o.created_at LIMIT :limit
