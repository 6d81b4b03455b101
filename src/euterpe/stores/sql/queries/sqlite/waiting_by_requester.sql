-- What each requester has waiting or running, in jobs and bytes of payload: the cost follows the backlog, not the history.
SELECT requester_id, COUNT(*), SUM(length(payload))
FROM inbox_jobs
WHERE state IN ('pending', 'scheduled', 'delayed', 'retrying', 'running')
GROUP BY requester_id
