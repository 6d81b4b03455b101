-- takes: id, ordered_by, requester_id, action, force, query, resolved, key, state, place, total, total_exact, cause
-- returns: operation_columns
-- locks: waits
-- An act on everything that matches. A key that was used before leaves the table as it is.
INSERT INTO euterpe_operations AS o (id, ordered_by, requester_id, action, force, query, resolved, idempotency_key, state,
    place, total, total_exact, cause, created_at, updated_at, completed_at)
VALUES (:id, :ordered_by, :requester_id, :action, :force, :query, :resolved, :key, :state, :place, :total, :total_exact,
    :cause, {{now}}, {{now}}, CASE WHEN CAST(:state AS text) <> 'running' THEN {{now}} END)
ON CONFLICT DO NOTHING
RETURNING {{operation_columns}}
