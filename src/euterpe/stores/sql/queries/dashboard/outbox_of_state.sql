-- Webhook events of one state, the oldest ones up to a limit, and since when the first of them is there.
SELECT COUNT(*), MIN(o.created_at)
FROM (SELECT created_at, requester_id FROM job_outbox_events WHERE state = :state ORDER BY seq LIMIT :limit) AS o
WHERE CAST(:requester_id AS TEXT) IS NULL OR o.requester_id = :requester_id
