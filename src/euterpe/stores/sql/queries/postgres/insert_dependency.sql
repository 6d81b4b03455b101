-- Edges of the graph.
INSERT INTO job_dependencies (job_id, depends_on)
SELECT * FROM unnest(CAST(:job_id AS uuid[]), CAST(:depends_on AS uuid[])) ON CONFLICT DO NOTHING
