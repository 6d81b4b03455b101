-- takes: rows of id, claim_version
-- returns: id, claim_version
-- locks: none
-- Which of these attempts completed their jobs, as far as is committed. Locks nothing.
SELECT CAST(j.id AS text), j.claim_version
FROM unnest(CAST(:id AS uuid[]), CAST(:claim_version AS bigint[])) AS i (id, claim_version)
JOIN inbox_jobs AS j ON j.id = i.id
WHERE j.claim_version = i.claim_version AND j.state = 'completed'
