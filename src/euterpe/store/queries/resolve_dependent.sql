-- One dependency less to wait for; the last one lets the job go, a bad end ends it.
-- The guard is not the state: see pending_means_waiting in the schema.
UPDATE inbox_jobs AS j
SET pending_dependencies = :pending,
    state = CASE WHEN :state <> 'scheduled' THEN :state
                 WHEN j.run_at > {{now}} THEN 'delayed' ELSE 'scheduled' END,
    scheduled_at = CASE WHEN :state = 'scheduled' AND j.run_at <= {{now}} THEN {{now}} ELSE j.scheduled_at END,
    completed_at = CASE WHEN :state IN ('pending', 'scheduled') THEN NULL ELSE {{now}} END,
    error = COALESCE(:error, j.error), updated_at = {{now}},
    transitions = j.transitions + CASE :state WHEN 'pending' THEN 0 ELSE 1 END
WHERE j.id = :id AND j.pending_dependencies > 0
RETURNING {{moved_columns}}
