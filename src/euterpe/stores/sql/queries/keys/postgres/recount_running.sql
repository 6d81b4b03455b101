-- takes: rows of name
-- returns: nothing
-- locks: waits
-- How many jobs of these keys, which are held, run. Whoever claims or ends one holds its key until its commit.
WITH found AS MATERIALIZED (
    SELECT {{limit_key}} AS name, COUNT(DISTINCT j.seq) AS jobs FROM inbox_jobs AS j
    WHERE {{is_running}} AND j.concurrency_key IS NOT NULL GROUP BY 1
)
UPDATE euterpe_keys AS k SET running = COALESCE(f.jobs, 0)
FROM unnest(CAST(:name AS text[])) AS i (name) LEFT JOIN found AS f ON f.name = i.name
WHERE k.name = i.name AND k.running <> COALESCE(f.jobs, 0)
