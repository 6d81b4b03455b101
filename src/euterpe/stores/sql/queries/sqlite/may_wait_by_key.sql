-- Which of these jobs, which are next, can wait for a moment although they have a concurrency key: those that stay within its
-- limit. They count among the key's running jobs while they wait, and must not be parked for a place that they take themselves.
-- One of a key with a rate cannot wait.
WITH next AS MATERIALIZED (
    SELECT j.seq, {{limit_key}} AS name, j.concurrency_limit,
           row_number() OVER (PARTITION BY {{limit_key}} ORDER BY j.priority, j.seq) AS place
    FROM inbox_jobs AS j
    WHERE j.seq IN (SELECT value FROM json_each(:seqs)) AND j.concurrency_key IS NOT NULL AND {{may_wait}}
), keys AS MATERIALIZED (
    SELECT k.name, (SELECT COUNT(*) FROM inbox_jobs AS j
                    WHERE {{limit_key}} = k.name AND j.concurrency_key IS NOT NULL AND j.state = 'running') AS running
    FROM (SELECT DISTINCT name FROM next) AS k
    WHERE NOT EXISTS (SELECT 1 FROM euterpe_key_rates AS r WHERE r.name = k.name)
)
SELECT json_group_array(n.seq) FROM next AS n JOIN keys AS k ON k.name = n.name
WHERE k.running + n.place <= n.concurrency_limit
