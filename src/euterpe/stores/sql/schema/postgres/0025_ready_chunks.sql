-- Plain jobs that wait, a row for up to 250 of one submit, and claims of them, a row a batch: docs/adr/017.
ALTER TABLE inbox_jobs ADD COLUMN chunk bigint;
CREATE SEQUENCE euterpe_chunks;
CREATE TABLE euterpe_ready (
    chunk        bigint   NOT NULL PRIMARY KEY,
    queue        text     NOT NULL,
    priority     smallint NOT NULL,
    lo           bigint   NOT NULL,
    jobs         integer  NOT NULL,
    type         text     NOT NULL,
    max_attempts integer  NOT NULL,
    expires_at   bigint   NOT NULL,
    ranges       int8multirange NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX euterpe_ready_line ON euterpe_ready (queue, priority, lo);
CREATE TABLE euterpe_claims (
    receipt          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    worker_id        text   NOT NULL,
    claimed_at       bigint NOT NULL,
    lease_expires_at bigint NOT NULL,
    ranges           int8multirange NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
-- A plain job is parked as well, so that a worker of an older release does not take it for one that it may claim.
DROP INDEX inbox_jobs_parked;
CREATE INDEX inbox_jobs_parked ON inbox_jobs ((requester_id || chr(31) || concurrency_key), priority, seq)
    WHERE parked AND concurrency_key IS NOT NULL;
-- Jobs as they are: a claim that is on a receipt only shows as it will stand on the row.
CREATE VIEW euterpe_now AS
SELECT j.seq,
       j.id,
       j.requester_id,
       j.queue,
       j.type,
       j.priority,
       j.payload_format,
       j.callback_events,
       j.max_attempts,
       j.depth,
       j.created_at,
       j.expires_at,
       j.execution_timeout_us,
       j.visibility_us,
       j.concurrency_limit,
       j.payload,
       j.stages,
       j.retry_policy,
       j.tags,
       j.correlation_id,
       j.callback_url,
       j.idempotency_key,
       j.dependency,
       j.parent_id,
       j.replay_of,
       j.concurrency_key,
       CASE WHEN c.receipt IS NULL THEN j.state ELSE 'running' END AS state,
       CASE WHEN c.receipt IS NULL THEN j.stage ELSE 'claimed' END AS stage,
       j.stage_ordinal,
       CASE WHEN c.receipt IS NULL THEN j.attempt_count ELSE 1 END AS attempt_count,
       j.release_count,
       CASE WHEN c.receipt IS NULL THEN j.claim_version ELSE 1 END AS claim_version,
       CASE WHEN c.receipt IS NULL THEN j.transitions ELSE j.transitions + 1 END AS transitions,
       COALESCE(c.worker_id, j.worker_id) AS worker_id,
       j.lease_token_hash,
       j.outcome_hash,
       COALESCE(LEAST(c.lease_expires_at, c.claimed_at + LEAST(j.visibility_us, j.execution_timeout_us + 30000000)), j.lease_expires_at) AS lease_expires_at,
       COALESCE(c.claimed_at, j.heartbeat_at) AS heartbeat_at,
       j.run_at,
       COALESCE(c.claimed_at, j.updated_at) AS updated_at,
       j.scheduled_at,
       COALESCE(c.claimed_at, j.started_at) AS started_at,
       j.completed_at,
       j.cancel_version,
       j.pending_dependencies,
       j.has_dependents,
       j.parked AND j.chunk IS NULL AS parked,
       j.progress,
       j.progress_message,
       j.result,
       j.error,
       j.checkpoint,
       j.fingerprint,
       j.failed_at,
       j.chunk
FROM inbox_jobs AS j
LEFT JOIN LATERAL (SELECT * FROM euterpe_claims AS r
                   WHERE j.chunk IS NOT NULL AND j.state = 'scheduled' AND r.ranges @> j.seq LIMIT 1) AS c ON true;
