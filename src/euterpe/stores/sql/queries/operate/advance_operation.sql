-- takes: place, state, done, dependents, skipped, failed, error, id, seen
-- returns: operation_columns
-- locks: waits
-- The batch is done with: compare-and-set on the place that was seen.
UPDATE euterpe_operations AS o
SET place = :place, state = :state, done = o.done + :done, dependents = o.dependents + :dependents, skipped = :skipped, failed = o.failed + :failed,
    error = COALESCE(CAST(:error AS text), o.error), updated_at = {{now}},
    completed_at = CASE WHEN CAST(:state AS text) <> 'running' THEN {{now}} END
WHERE o.id = :id AND o.place = :seen AND o.state = 'running'
RETURNING {{operation_columns}}
