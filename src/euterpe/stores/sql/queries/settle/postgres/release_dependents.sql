-- takes: ids
-- returns: limit_key
-- locks: waits
-- These jobs wait for nothing more: `resolve_dependent` for those of whose release nobody is told. Their rows are held.
-- The guard is not the state: see pending_means_waiting in the schema. It returns the concurrency keys of those in no line yet.
WITH entering AS (
    UPDATE inbox_jobs AS j
    SET pending_dependencies = 0,
        state = CASE WHEN j.run_at > {{now}} THEN 'delayed' ELSE 'scheduled' END,
        listed = CASE WHEN j.run_at > {{now}} THEN 'delayed' END,
        scheduled_at = CASE WHEN j.run_at > {{now}} THEN j.scheduled_at ELSE {{now}} END,
        updated_at = {{now}}, transitions = j.transitions + 1
    WHERE j.id {{in ids uuid}} AND j.pending_dependencies > 0
    RETURNING {{entering_columns}}
), {{enter}}
SELECT DISTINCT {{limit_key}} FROM entering AS j WHERE j.state = 'scheduled' AND j.concurrency_key IS NOT NULL
