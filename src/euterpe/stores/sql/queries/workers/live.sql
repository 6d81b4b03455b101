-- takes: limit
-- returns: worker_id, started_at, seen_at, facts, is_alive
-- locks: none
-- Who is alive: whoever told of itself lately, and whoever did not and whose leases are renewed all the same.
SELECT w.worker_id, w.started_at, w.seen_at, w.facts, w.expires_at > {{now}} FROM euterpe_workers AS w
WHERE w.expires_at > {{now}} OR {{workers/keeps_leases}}
ORDER BY w.worker_id
LIMIT :limit
