-- takes: requester_id, limit
-- returns: state, count, looked_at
-- locks: none
-- One requester's jobs among the newest of each state, and how many were looked at.
SELECT s.state, COUNT(*) FILTER (WHERE n.requester_id = :requester_id), COUNT(n.seq)
FROM {{dashboard/every_state}} AS s LEFT JOIN LATERAL ({{newest}}) AS n ON true
GROUP BY s.state
