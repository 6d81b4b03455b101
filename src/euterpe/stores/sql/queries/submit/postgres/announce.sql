-- takes: channel, queues
-- returns: told
-- locks: none
-- Tell listeners of these queues, when and if this transaction commits.
SELECT pg_notify(:channel, queue) FROM unnest(CAST(:queues AS text[])) AS q (queue)
