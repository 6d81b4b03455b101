-- Jobs of one queue that a worker could take, and that have waited for a while: what a lost transport is told again.
SELECT CAST(j.id AS TEXT), j.priority FROM inbox_jobs AS j
WHERE j.state = 'scheduled' AND (NOT j.parked OR EXISTS (SELECT 1 FROM euterpe_ready AS r WHERE r.chunk = j.chunk AND r.ranges @> j.seq)) AND j.queue = :queue
  AND j.type NOT IN (SELECT name FROM euterpe_pauses WHERE kind = 'type')
  AND NOT EXISTS (SELECT 1 FROM euterpe_pauses WHERE kind = 'queue' AND name = :queue)
  AND j.expires_at > {{now}} AND COALESCE(j.scheduled_at, j.created_at) <= {{now}} - :age_us
ORDER BY j.priority, j.seq
LIMIT :limit
