-- What each requester has waiting or running, in jobs and bytes of payload: the cost follows the backlog, not the history.
SELECT l.requester_id, COUNT(*), SUM(l.bytes)
FROM (
    SELECT requester_id, octet_length(payload) AS bytes FROM inbox_jobs
    WHERE indexed_state IN ('pending', 'scheduled', 'delayed', 'retrying', 'running')
    UNION ALL
    SELECT j.requester_id, octet_length(j.payload) FROM unnest({{plain_waiting}}) AS x, {{plain_in}}
) AS l
GROUP BY l.requester_id
