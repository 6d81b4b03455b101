-- Take up to :limit due events of one requester; of each job only the first undelivered one, so that order holds.
UPDATE job_outbox_events AS e
SET state = 'running', claim_version = e.claim_version + 1, attempt_count = e.attempt_count + 1,
    worker_id = :worker_id, lease_expires_at = :now + :lease_ttl_us, heartbeat_at = :now,
    started_at = :now, updated_at = :now
WHERE e.seq IN (
    SELECT d.seq
    FROM job_outbox_events AS d {{by job_outbox_events_turns}}
    WHERE d.requester_id = :requester_id AND d.state || '' IN ('scheduled', 'retrying') AND d.run_at <= :now
      AND NOT EXISTS (SELECT 1 FROM job_outbox_events AS earlier
                      WHERE earlier.job_id = d.job_id AND earlier.sequence < d.sequence
                        AND earlier.state IN ('scheduled', 'running', 'retrying'))
      AND d.origin NOT IN (SELECT value FROM json_each(:skip_origins))
    ORDER BY d.run_at, d.seq
    LIMIT :limit
)
RETURNING {{event_columns}}
