-- The queue lives in the application's database: tables that the contract does not name carry our prefix.
-- Only for databases that were made before; a new one gets these names at once.
DROP VIEW job_attempts;
DROP VIEW jobs_readable;
ALTER TABLE schema_migrations RENAME TO euterpe_migrations;
ALTER TABLE api_keys RENAME TO euterpe_api_keys;
ALTER TABLE requesters RENAME TO euterpe_requesters;
ALTER TABLE webhook_secrets RENAME TO euterpe_webhook_secrets;
DROP INDEX webhook_secrets_requester;
CREATE INDEX euterpe_webhook_secrets_requester ON euterpe_webhook_secrets (requester_id, created_at);
ALTER TABLE pauses RENAME TO euterpe_pauses;
ALTER TABLE job_tombstones RENAME TO euterpe_tombstones;
DROP INDEX job_tombstones_age;
CREATE INDEX euterpe_tombstones_age ON euterpe_tombstones (pruned_at);
ALTER TABLE outbox_deliveries RENAME TO euterpe_outbox_deliveries;
ALTER TABLE ended_attempts RENAME TO euterpe_ended_attempts;

CREATE VIEW job_attempts AS
SELECT job_id, claim_version, attempt, worker_id, started_at, ended_at, outcome, state, error, lease_token_hash,
       outcome_hash
FROM euterpe_ended_attempts
UNION ALL
SELECT id, claim_version, attempt_count, worker_id, started_at, completed_at, 'completed', state, NULL,
       lease_token_hash, outcome_hash
FROM inbox_jobs WHERE state = 'completed';

CREATE VIEW euterpe_jobs AS
SELECT id, type, queue, state, stage, priority, attempt_count, max_attempts, claim_version, worker_id,
       CASE payload_format WHEN 'json' THEN CAST(payload AS TEXT) END AS payload,
       CAST(result AS TEXT) AS result, error, tags,
       strftime('%Y-%m-%d %H:%M:%f', created_at / 1e6, 'unixepoch') AS created_at,
       strftime('%Y-%m-%d %H:%M:%f', run_at / 1e6, 'unixepoch') AS run_at,
       strftime('%Y-%m-%d %H:%M:%f', started_at / 1e6, 'unixepoch') AS started_at,
       strftime('%Y-%m-%d %H:%M:%f', completed_at / 1e6, 'unixepoch') AS completed_at,
       strftime('%Y-%m-%d %H:%M:%f', lease_expires_at / 1e6, 'unixepoch') AS lease_expires_at,
       strftime('%Y-%m-%d %H:%M:%f', expires_at / 1e6, 'unixepoch') AS expires_at
FROM inbox_jobs;
