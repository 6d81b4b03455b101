-- takes: requester_id, skip, limit, worker_id, lease_ttl_us
-- returns: event_columns
-- locks: skips
-- Take up to :limit due events of one requester.
WITH picked AS MATERIALIZED (
    SELECT d.id
    FROM job_outbox_events AS d
    WHERE d.requester_id = :requester_id AND d.state || '' IN ('scheduled', 'retrying') AND d.run_at <= {{now}}
    {{next_events}}
    FOR UPDATE OF d SKIP LOCKED
)
{{take_event}}
FROM picked
WHERE e.id = picked.id
RETURNING {{event_columns}}
