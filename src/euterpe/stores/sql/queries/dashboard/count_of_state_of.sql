-- One requester's jobs among the newest of a state, and how many were looked at.
SELECT COALESCE(SUM(CASE WHEN n.requester_id = :requester_id THEN 1 ELSE 0 END), 0), COUNT(*)
FROM (SELECT requester_id FROM inbox_jobs WHERE state = :state ORDER BY seq DESC LIMIT :limit) AS n
