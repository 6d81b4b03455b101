-- Take up to :limit scheduled jobs of one queue, most urgent first, oldest first inside a priority.
-- MATERIALIZED keeps the planner from running the locking select more than once.
WITH picked AS MATERIALIZED (
    SELECT w.id
    FROM inbox_jobs AS w
    WHERE state || '' = 'scheduled' AND NOT parked AND queue = :queue
      AND (CAST(:types AS text[]) IS NULL OR type = ANY (CAST(:types AS text[])))
      AND type NOT IN (SELECT name FROM pauses WHERE kind = 'type')
      AND NOT EXISTS (SELECT 1 FROM pauses WHERE kind = 'queue' AND name = :queue)
      AND expires_at > {{now}}
    ORDER BY priority, seq
    LIMIT :limit
    FOR UPDATE OF w SKIP LOCKED
)
UPDATE inbox_jobs AS j
SET state = 'running', stage = 'claimed', stage_ordinal = 0,
    claim_version = j.claim_version + 1, attempt_count = j.attempt_count + 1,
    worker_id = :worker_id, lease_token_hash = NULL,
    lease_expires_at = {{now}} + LEAST(:lease_ttl_us, j.visibility_us), heartbeat_at = {{now}},
    started_at = {{now}}, updated_at = {{now}}, progress = NULL, progress_message = NULL,
    transitions = j.transitions + 1
FROM picked
WHERE j.id = picked.id
RETURNING {{job_columns}}
