-- takes: limit, requester_id
-- returns: state, count, looked_at
-- locks: none
-- One requester's jobs among the newest of each state, and how many were looked at.
SELECT s.state,
       (SELECT COUNT(*) FROM (SELECT j.requester_id FROM inbox_jobs AS j WHERE j.state = s.state
                              ORDER BY j.seq DESC LIMIT :limit) AS n WHERE n.requester_id = :requester_id),
       (SELECT COUNT(*) FROM (SELECT 1 FROM inbox_jobs AS j WHERE j.state = s.state
                              ORDER BY j.seq DESC LIMIT :limit) AS n)
FROM {{dashboard/every_state}} AS s
