-- Keys with parked jobs and fewer running than their limit, and how many more may run. A key without a limit had a rate;
-- if that is gone, all go on. What is ready and not claimed does
-- not count: it may be paused, or of a type that no worker knows. Hops from key to key: a few look-ups a key, not a job.
WITH RECURSIVE parked_keys (name) AS (
    SELECT MIN({{limit_key}}) FROM inbox_jobs AS j WHERE j.parked AND j.concurrency_key IS NOT NULL
    UNION ALL
    SELECT (SELECT MIN({{limit_key}}) FROM inbox_jobs AS j
            WHERE j.parked AND j.concurrency_key IS NOT NULL AND {{limit_key}} > k.name)
    FROM parked_keys AS k WHERE k.name IS NOT NULL
), counted (name, most, running) AS (
    SELECT k.name,
           (SELECT COALESCE(j.concurrency_limit,
                            CASE WHEN EXISTS (SELECT 1 FROM euterpe_key_rates AS r WHERE r.name = k.name) THEN 0
                                 ELSE 1000 END) FROM inbox_jobs AS j
            WHERE j.parked AND j.concurrency_key IS NOT NULL AND {{limit_key}} = k.name ORDER BY j.priority, j.seq LIMIT 1),
           (SELECT COUNT(*) FROM inbox_jobs AS j
            WHERE {{limit_key}} = k.name AND j.concurrency_key IS NOT NULL AND {{key_state}} = 'running')
    FROM parked_keys AS k
    WHERE k.name IS NOT NULL
)
SELECT name, most - running FROM counted WHERE running < most
LIMIT :limit
