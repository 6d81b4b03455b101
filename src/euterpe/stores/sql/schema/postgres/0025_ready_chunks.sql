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
-- What indexes see of the state: nothing of a plain job. Its one write, the settle, then changes no index (HOT).
ALTER TABLE inbox_jobs ADD COLUMN indexed_state text GENERATED ALWAYS AS (CASE WHEN chunk IS NULL THEN state END) STORED;
DROP INDEX inbox_jobs_claim;
DROP INDEX inbox_jobs_due;
DROP INDEX inbox_jobs_lifetime;
DROP INDEX inbox_jobs_state;
DROP INDEX inbox_jobs_concurrency;
CREATE UNIQUE INDEX inbox_jobs_seq ON inbox_jobs (seq);
CREATE INDEX inbox_jobs_state ON inbox_jobs (indexed_state, seq) WHERE indexed_state IS NOT NULL;
CREATE INDEX inbox_jobs_claim ON inbox_jobs (queue, priority, seq) WHERE indexed_state || '' = 'scheduled' AND NOT parked;
CREATE INDEX inbox_jobs_due ON inbox_jobs (run_at) WHERE indexed_state IN ('delayed', 'retrying');
CREATE INDEX inbox_jobs_lifetime ON inbox_jobs (expires_at)
    WHERE indexed_state || '' IN ('pending', 'scheduled', 'delayed', 'retrying');
CREATE INDEX inbox_jobs_concurrency ON inbox_jobs ((requester_id || chr(31) || concurrency_key), indexed_state, seq)
    WHERE concurrency_key IS NOT NULL;
