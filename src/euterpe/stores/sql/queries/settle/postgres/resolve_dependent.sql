-- takes: rows of id, pending, state, error
-- returns: moved_columns, claim_version, queue, type
-- locks: waits
-- ends: dependents
-- One dependency less to wait for; the last one lets the job go, a bad end ends it.
-- The guard is not the state: see pending_means_waiting in the schema.
WITH entering AS (
UPDATE inbox_jobs AS j
SET pending_dependencies = i.pending,
    state = CASE WHEN i.state <> 'scheduled' THEN i.state
                 WHEN j.run_at > {{now}} THEN 'delayed' ELSE 'scheduled' END,
    scheduled_at = CASE WHEN i.state = 'scheduled' AND j.run_at <= {{now}} THEN {{now}} ELSE j.scheduled_at END,
    completed_at = CASE WHEN i.state IN ('pending', 'scheduled') THEN NULL ELSE {{now}} END,
    listed = CASE WHEN i.state <> 'scheduled' THEN i.state WHEN j.run_at > {{now}} THEN 'delayed' END,
    error = COALESCE(i.error, j.error), updated_at = {{now}},
    transitions = j.transitions + CASE i.state WHEN 'pending' THEN 0 ELSE 1 END
FROM unnest(CAST(:id AS uuid[]), CAST(:pending AS integer[]), CAST(:state AS text[]), CAST(:error AS text[]))
    AS i (id, pending, state, error)
WHERE j.id = i.id AND j.pending_dependencies > 0
RETURNING j.id, j.has_dependents, {{entering_columns}}
), {{enter}}
SELECT {{moved_columns}}, j.claim_version, j.queue, j.type FROM entering AS j
