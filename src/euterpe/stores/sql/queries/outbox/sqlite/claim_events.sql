-- takes: worker_id, lease_ttl_us, skip, limit
-- returns: event_columns
-- locks: waits
-- Take up to :limit due events.
{{take_event}}
WHERE e.seq IN (
    SELECT d.seq
    FROM job_outbox_events AS d {{by job_outbox_events_due}}
    WHERE d.state IN ('scheduled', 'retrying') AND d.run_at <= {{now}}
    {{next_events}}
)
RETURNING {{event_columns}}
