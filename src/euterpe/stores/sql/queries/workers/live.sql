-- Who is alive.
SELECT worker_id, started_at, seen_at, facts FROM euterpe_workers
WHERE expires_at > {{now}}
ORDER BY worker_id
LIMIT :limit
