-- takes: rows of job_id, depends_on
-- returns: nothing
-- locks: waits
-- Jobs that wait for others, stored in a transaction that must not hold those others.
INSERT INTO euterpe_unwatched_dependencies (job_id, depends_on)
SELECT * FROM unnest(CAST(:job_id AS uuid[]), CAST(:depends_on AS text[]))
