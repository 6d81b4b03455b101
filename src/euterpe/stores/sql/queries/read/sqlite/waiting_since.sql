-- takes: queue, age_us, limit
-- returns: id, priority
-- locks: none
-- Jobs of one queue that a worker could take, and that have waited for a while: what a lost transport is told again.
WITH RECURSIVE asked (type) AS MATERIALIZED (
    SELECT w.type FROM ({{types_of_queue}}) AS w WHERE {{unpaused}}
), {{line}}
SELECT CAST(j.id AS TEXT), j.priority FROM line AS l CROSS JOIN inbox_jobs AS j ON j.seq = l.seq
WHERE j.state || '' = 'scheduled' AND j.expires_at > {{now}} AND COALESCE(j.scheduled_at, j.created_at) <= {{now}} - :age_us
LIMIT :limit
