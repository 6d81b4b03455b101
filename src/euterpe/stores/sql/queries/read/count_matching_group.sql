-- takes: fingerprint, before, down_to, states, requester_id, type, type_prefix, queue, created_after, created_before, ended_after,
--     ended_before, replayed, correlation_id, error, tags, limit
-- returns: count
-- locks: none
-- The same of the failures with one fingerprint.
SELECT COUNT(*) FROM ({{matching_group}}) AS m
