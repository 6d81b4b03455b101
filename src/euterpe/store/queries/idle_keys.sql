-- Keys with parked jobs and nothing running, and their limits. Hops from key to key: one look-up a key, not a job.
WITH RECURSIVE parked_keys (name) AS (
    SELECT MIN(concurrency_key) FROM inbox_jobs WHERE parked
    UNION ALL
    SELECT (SELECT MIN(j.concurrency_key) FROM inbox_jobs AS j WHERE j.parked AND j.concurrency_key > k.name)
    FROM parked_keys AS k WHERE k.name IS NOT NULL
)
SELECT k.name, (SELECT p.concurrency_limit FROM inbox_jobs AS p
                WHERE p.parked AND p.concurrency_key = k.name ORDER BY p.priority, p.seq LIMIT 1)
FROM parked_keys AS k
WHERE k.name IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM inbox_jobs AS r WHERE r.concurrency_key = k.name AND r.state = 'running')
LIMIT :limit
