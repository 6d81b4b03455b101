-- takes: limit, queue, age_us
-- returns: id, priority
-- locks: none
-- Jobs of one queue that a worker could take, and that have waited for a while: what a lost transport is told again.
SELECT CAST(j.id AS TEXT), j.priority FROM {{front_of_queue}}
WHERE COALESCE(j.scheduled_at, j.created_at) <= {{now}} - :age_us
ORDER BY r.priority, r.rank, r.seq, n.seq
LIMIT :limit
