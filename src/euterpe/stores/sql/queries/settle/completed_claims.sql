-- takes: each id, claim_version
-- returns: id, claim_version
-- locks: none
-- Which of these attempts completed their jobs, as far as is committed. Locks nothing.
SELECT CAST(j.id AS TEXT), j.claim_version FROM inbox_jobs AS j
WHERE j.id = :id AND j.claim_version = :claim_version AND j.state = 'completed'
