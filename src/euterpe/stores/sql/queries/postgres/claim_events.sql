-- Take up to :limit due events; of each job only the first undelivered one, so that order holds.
WITH picked AS MATERIALIZED (
    SELECT e.id
    FROM job_outbox_events AS e
    WHERE e.state IN ('scheduled', 'retrying') AND e.run_at <= {{now}}
      AND NOT EXISTS (SELECT 1 FROM job_outbox_events AS earlier
                      WHERE earlier.job_id = e.job_id AND earlier.sequence < e.sequence
                        AND earlier.state IN ('scheduled', 'running', 'retrying'))
      AND NOT (e.origin = ANY (CAST(:skip_origins AS text[])))
    ORDER BY e.run_at, e.seq
    LIMIT :limit
    FOR UPDATE OF e SKIP LOCKED
)
UPDATE job_outbox_events AS e
SET state = 'running', claim_version = e.claim_version + 1, attempt_count = e.attempt_count + 1,
    worker_id = :worker_id, lease_expires_at = {{now}} + :lease_ttl_us, heartbeat_at = {{now}},
    started_at = {{now}}, updated_at = {{now}}
FROM picked
WHERE e.id = picked.id
RETURNING {{event_columns}}
