-- takes: id
-- returns: operation_columns
-- locks: waits
-- No further job is acted on.
UPDATE euterpe_operations AS o SET state = 'cancelled', updated_at = {{now}}, completed_at = {{now}}
WHERE o.id = :id AND o.state = 'running'
RETURNING {{operation_columns}}
