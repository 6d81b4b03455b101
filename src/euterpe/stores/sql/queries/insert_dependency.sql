-- An edge of the graph.
INSERT INTO job_dependencies (job_id, depends_on) VALUES (:job_id, :depends_on) ON CONFLICT DO NOTHING
