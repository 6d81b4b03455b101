-- takes: each job_id, depends_on, position
-- returns: nothing
-- locks: waits
-- An edge of the graph.
INSERT INTO job_dependencies (job_id, depends_on, position) VALUES (:job_id, :depends_on, :position) ON CONFLICT DO NOTHING
