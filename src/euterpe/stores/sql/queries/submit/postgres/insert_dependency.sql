-- takes: rows of job_id, depends_on, position
-- returns: nothing
-- locks: waits
-- Edges of the graph.
INSERT INTO job_dependencies (job_id, depends_on, position)
SELECT * FROM unnest(CAST(:job_id AS uuid[]), CAST(:depends_on AS uuid[]), CAST(:position AS integer[]))
ON CONFLICT DO NOTHING
