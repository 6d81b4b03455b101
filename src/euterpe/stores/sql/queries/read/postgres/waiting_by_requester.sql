-- takes: states, before, down_to, requester_id, type, type_prefix, queue, created_after, created_before, ended_after, ended_before,
--     replayed, correlation_id, error, tags, limit
-- returns: requester_id, count, sum
-- locks: none
-- What each requester has between two places, in jobs and bytes of payload.
SELECT c.requester_id, COUNT(*), SUM(octet_length(c.payload))
FROM (
            {{found}}
) AS c
GROUP BY c.requester_id
