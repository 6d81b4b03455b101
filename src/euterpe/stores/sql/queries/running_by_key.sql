-- How many jobs of each limit key run now, this transaction's own claims included, and whether the key has a rate: most
-- have none, and then nobody asks for it.
SELECT k.name, k.running, EXISTS (SELECT 1 FROM euterpe_key_rates AS r WHERE r.name = k.name)
FROM (
    SELECT {{limit_key}} AS name, COUNT(*) AS running
    FROM inbox_jobs AS j
    WHERE {{limit_key}} {{in keys text}} AND j.concurrency_key IS NOT NULL AND {{key_state}} = 'running'
    GROUP BY {{limit_key}}
) AS k
