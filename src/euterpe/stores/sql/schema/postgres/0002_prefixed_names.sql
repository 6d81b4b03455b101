-- The queue lives in the application's database: tables that the contract does not name carry our prefix.
-- Only for databases that were made before; a new one gets these names at once.
ALTER TABLE schema_migrations RENAME TO euterpe_migrations;
ALTER TABLE euterpe_migrations RENAME CONSTRAINT schema_migrations_pkey TO euterpe_migrations_pkey;
ALTER TABLE api_keys RENAME TO euterpe_api_keys;
ALTER TABLE euterpe_api_keys RENAME CONSTRAINT api_keys_pkey TO euterpe_api_keys_pkey;
ALTER TABLE requesters RENAME TO euterpe_requesters;
ALTER TABLE euterpe_requesters RENAME CONSTRAINT requesters_pkey TO euterpe_requesters_pkey;
ALTER TABLE webhook_secrets RENAME TO euterpe_webhook_secrets;
ALTER TABLE euterpe_webhook_secrets RENAME CONSTRAINT webhook_secrets_pkey TO euterpe_webhook_secrets_pkey;
ALTER INDEX webhook_secrets_requester RENAME TO euterpe_webhook_secrets_requester;
ALTER TABLE pauses RENAME TO euterpe_pauses;
ALTER TABLE euterpe_pauses RENAME CONSTRAINT pauses_pkey TO euterpe_pauses_pkey;
ALTER TABLE job_tombstones RENAME TO euterpe_tombstones;
ALTER TABLE euterpe_tombstones RENAME CONSTRAINT job_tombstones_pkey TO euterpe_tombstones_pkey;
ALTER INDEX job_tombstones_age RENAME TO euterpe_tombstones_age;
ALTER TABLE outbox_deliveries RENAME TO euterpe_outbox_deliveries;
ALTER TABLE euterpe_outbox_deliveries RENAME CONSTRAINT outbox_deliveries_pkey TO euterpe_outbox_deliveries_pkey;
ALTER TABLE ended_attempts RENAME TO euterpe_ended_attempts;
ALTER TABLE euterpe_ended_attempts RENAME CONSTRAINT ended_attempts_pkey TO euterpe_ended_attempts_pkey;
ALTER VIEW jobs_readable RENAME TO euterpe_jobs;
