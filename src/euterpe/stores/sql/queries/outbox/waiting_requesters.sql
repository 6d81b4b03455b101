-- takes: after, limit
-- returns: requester_id
-- locks: none
-- Requesters who have events that are due, in the order of their names from :after on; each step goes straight to the next.
WITH RECURSIVE waiting (requester_id, step) AS (
    SELECT (SELECT MIN(e.requester_id) FROM job_outbox_events AS e {{by job_outbox_events_turns}}
            WHERE e.state || '' IN ('scheduled', 'retrying') AND e.requester_id > :after), 1
    UNION ALL
    SELECT (SELECT MIN(e.requester_id) FROM job_outbox_events AS e {{by job_outbox_events_turns}}
            WHERE e.state || '' IN ('scheduled', 'retrying') AND e.requester_id > l.requester_id), l.step + 1
    FROM waiting AS l
    WHERE l.requester_id IS NOT NULL AND l.step < :limit
)
SELECT l.requester_id
FROM waiting AS l
WHERE l.requester_id IS NOT NULL
  AND EXISTS (SELECT 1 FROM job_outbox_events AS e {{by job_outbox_events_turns}}
              WHERE e.state || '' IN ('scheduled', 'retrying') AND e.requester_id = l.requester_id AND e.run_at <= {{now}})
