-- These jobs wait for nothing more: `resolve_dependent` for those of whose release nobody is told. Their rows are held.
-- The guard is not the state: see pending_means_waiting in the schema.
UPDATE inbox_jobs AS j
SET pending_dependencies = 0,
    state = CASE WHEN j.run_at > {{now}} THEN 'delayed' ELSE 'scheduled' END,
    scheduled_at = CASE WHEN j.run_at > {{now}} THEN j.scheduled_at ELSE {{now}} END,
    updated_at = {{now}}, transitions = j.transitions + 1
WHERE j.id {{in ids uuid}} AND j.pending_dependencies > 0
