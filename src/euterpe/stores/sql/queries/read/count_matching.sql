-- takes: states, before, down_to, requester_id, type, type_prefix, queue, created_after, created_before, ended_after, ended_before,
--     replayed, correlation_id, error, tags, limit
-- returns: count
-- locks: none
-- How many jobs match, up to a limit.
SELECT COUNT(*) FROM ({{matching}}) AS m
