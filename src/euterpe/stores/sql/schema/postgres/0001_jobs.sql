-- Jobs, their attempts and dependencies, idempotency keys and the outbox.
-- Times are integer microseconds since the epoch (UTC); the view `jobs_readable` shows them as timestamps.
-- No foreign keys on the hot path: a key check per settled job costs more than the settle itself, and the
-- only deletes are the prune's, which removes what belongs together in one transaction.

CREATE TABLE inbox_jobs (
    -- What never changes first, what changes last: an update then logs the tail of the row alone.
    seq                  bigint GENERATED ALWAYS AS IDENTITY,
    id                   uuid    NOT NULL PRIMARY KEY,
    requester_id         text    NOT NULL,
    queue                text    NOT NULL,
    type                 text    NOT NULL,
    priority             smallint NOT NULL CHECK (priority BETWEEN 0 AND 4),
    payload_format       text    NOT NULL DEFAULT 'json',
    callback_events      text    NOT NULL DEFAULT 'all',
    max_attempts         integer NOT NULL,
    depth                smallint NOT NULL DEFAULT 1,
    created_at           bigint  NOT NULL,
    expires_at           bigint  NOT NULL,
    execution_timeout_us bigint  NOT NULL,
    visibility_us        bigint  NOT NULL,
    concurrency_limit    integer,
    payload              bytea   NOT NULL,
    stages               text,
    retry_policy         text,
    tags                 text,
    correlation_id       text,
    callback_url         text,
    idempotency_key      text,
    dependency           text,
    parent_id            uuid,
    replay_of            uuid,
    concurrency_key      text,
    -- One of the nine. No CHECK says so here, as it does on SQLite under the same programs: Postgres reads the text of every
    -- CHECK anew at each statement, and this list was a fifth of the server's time for a single job.
    state                text    NOT NULL,
    stage                text,
    stage_ordinal        smallint NOT NULL DEFAULT 0,
    attempt_count        integer NOT NULL DEFAULT 0,
    release_count        integer NOT NULL DEFAULT 0,
    claim_version        bigint  NOT NULL DEFAULT 0,
    transitions          bigint  NOT NULL DEFAULT 1,
    worker_id            text,
    lease_token_hash     bytea,
    outcome_hash         bytea,
    lease_expires_at     bigint,
    heartbeat_at         bigint,
    run_at               bigint  NOT NULL,
    updated_at           bigint  NOT NULL,
    scheduled_at         bigint,
    started_at           bigint,
    completed_at         bigint,
    cancel_version       bigint,
    pending_dependencies integer NOT NULL DEFAULT 0,
    has_dependents       boolean NOT NULL DEFAULT false,
    parked               boolean NOT NULL DEFAULT false,
    progress             double precision,
    progress_message     text,
    result               bytea,
    error                text,
    checkpoint           bytea,
    -- The fence reads lease_expires_at and never state: no index mentions it, so heartbeats stay HOT and the
    -- settle finds its rows by primary key alone. This check makes the two the same thing.
    CONSTRAINT running_means_leased CHECK ((state = 'running') = (lease_expires_at IS NOT NULL)),
    -- Likewise for who waits: by the state, Postgres would find a dependent by way of all that wait.
    CONSTRAINT pending_means_waiting CHECK ((state = 'pending') = (pending_dependencies > 0))
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0,
        autovacuum_vacuum_insert_scale_factor = 0.1, autovacuum_analyze_scale_factor = 0.05);

-- The conditions of this and of inbox_jobs_lifetime are in words that no other statement uses. With plain ones Postgres
-- had several ways to a claim, and took one that reads and sorts all that waits whenever its statistics, which are always
-- old in a queue, said that little waits.
CREATE INDEX inbox_jobs_claim ON inbox_jobs (queue, priority, seq) WHERE state || '' = 'scheduled' AND NOT parked;
CREATE INDEX inbox_jobs_due ON inbox_jobs (run_at) WHERE state IN ('delayed', 'retrying');
CREATE INDEX inbox_jobs_lifetime ON inbox_jobs (expires_at) WHERE completed_at IS NULL AND state <> 'running';
CREATE INDEX inbox_jobs_state ON inbox_jobs (state, seq);
CREATE INDEX inbox_jobs_concurrency ON inbox_jobs (concurrency_key, state, seq) WHERE concurrency_key IS NOT NULL;
CREATE INDEX inbox_jobs_parked ON inbox_jobs (concurrency_key, priority, seq) WHERE parked;
CREATE INDEX inbox_jobs_parent ON inbox_jobs (parent_id) WHERE parent_id IS NOT NULL;

-- An attempt lives on the job's row while it is open, and for good if it completed the job: that row never changes
-- again. Any other is written here when it ends. The view `job_attempts` shows all that ended.
CREATE TABLE ended_attempts (
    job_id           uuid    NOT NULL,
    claim_version    bigint  NOT NULL,
    attempt          integer NOT NULL,
    worker_id        text,
    started_at       bigint  NOT NULL,
    ended_at         bigint  NOT NULL,
    outcome          text    NOT NULL,
    state            text    NOT NULL,
    error            text,
    lease_token_hash bytea,
    outcome_hash     bytea,
    PRIMARY KEY (job_id, claim_version)
);

CREATE TABLE job_dependencies (
    job_id     uuid NOT NULL,
    depends_on uuid NOT NULL,
    PRIMARY KEY (job_id, depends_on)
);
CREATE INDEX job_dependencies_depends_on ON job_dependencies (depends_on);

CREATE TABLE idempotency_keys (
    scope        text   NOT NULL,
    key          text   NOT NULL,
    request_hash bytea  NOT NULL,
    job_id       uuid   NOT NULL,
    response     bytea,
    created_at   bigint NOT NULL,
    expires_at   bigint NOT NULL,
    PRIMARY KEY (scope, key)
);
CREATE INDEX idempotency_keys_expiry ON idempotency_keys (expires_at);

-- An event is owned by the same protocol as a job, so it has the same columns with the same names.
CREATE TABLE job_outbox_events (
    seq              bigint GENERATED ALWAYS AS IDENTITY,
    id               uuid    NOT NULL PRIMARY KEY,
    job_id           uuid    NOT NULL,
    requester_id     text    NOT NULL,
    sequence         bigint  NOT NULL,
    type             text    NOT NULL,
    url              text    NOT NULL,
    origin           text    NOT NULL,
    body             bytea   NOT NULL,
    state            text    NOT NULL CHECK (state IN ('scheduled', 'running', 'retrying', 'completed', 'dead_letter')),
    attempt_count    integer NOT NULL DEFAULT 0,
    claim_version    bigint  NOT NULL DEFAULT 0,
    worker_id        text,
    lease_expires_at bigint,
    heartbeat_at     bigint,
    run_at           bigint  NOT NULL,
    created_at       bigint  NOT NULL,
    updated_at       bigint  NOT NULL,
    started_at       bigint,
    completed_at     bigint,
    error            text,
    CONSTRAINT running_means_leased CHECK ((state = 'running') = (lease_expires_at IS NOT NULL))
) WITH (fillfactor = 85, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

CREATE INDEX job_outbox_events_due ON job_outbox_events (run_at, seq) WHERE state IN ('scheduled', 'retrying');
CREATE INDEX job_outbox_events_order ON job_outbox_events (job_id, sequence)
    WHERE state IN ('scheduled', 'running', 'retrying');
CREATE INDEX job_outbox_events_state ON job_outbox_events (state, seq);

-- One row per POST of an event.
CREATE TABLE outbox_deliveries (
    event_id      uuid    NOT NULL,
    claim_version bigint  NOT NULL,
    attempt       integer NOT NULL,
    worker_id     text,
    started_at    bigint  NOT NULL,
    ended_at      bigint  NOT NULL,
    outcome       text    NOT NULL,
    http_status   integer,
    answer        text,
    error         text,
    PRIMARY KEY (event_id, claim_version)
);

-- What retention removed, so that a pruned job answers 410 and an unknown one 404.
CREATE TABLE job_tombstones (
    job_id       uuid   NOT NULL PRIMARY KEY,
    requester_id text   NOT NULL,
    state        text   NOT NULL,
    pruned_at    bigint NOT NULL
);
CREATE INDEX job_tombstones_age ON job_tombstones (pruned_at);

CREATE TABLE pauses (
    kind      text   NOT NULL CHECK (kind IN ('queue', 'type')),
    name      text   NOT NULL,
    paused_at bigint NOT NULL,
    PRIMARY KEY (kind, name)
);

CREATE TABLE requesters (
    id         text   NOT NULL PRIMARY KEY,
    created_at bigint NOT NULL
);

CREATE TABLE webhook_secrets (
    id                 text    NOT NULL PRIMARY KEY,
    requester_id       text    NOT NULL,
    encrypted          bytea   NOT NULL,
    dek_wrapped        bytea   NOT NULL,
    kek_id             text    NOT NULL,
    encryption_version integer NOT NULL,
    created_at         bigint  NOT NULL,
    retired_at         bigint
);
CREATE INDEX webhook_secrets_requester ON webhook_secrets (requester_id, created_at);

CREATE TABLE api_keys (
    prefix       text   NOT NULL PRIMARY KEY,
    requester_id text   NOT NULL,
    secret_hash  bytea  NOT NULL,
    scopes       text   NOT NULL,
    created_at   bigint NOT NULL,
    expires_at   bigint,
    revoked_at   bigint
);

CREATE VIEW job_attempts AS
SELECT job_id, claim_version, attempt, worker_id, started_at, ended_at, outcome, state, error, lease_token_hash,
       outcome_hash
FROM ended_attempts
UNION ALL
SELECT id, claim_version, attempt_count, worker_id, started_at, completed_at, 'completed', state, NULL,
       lease_token_hash, outcome_hash
FROM inbox_jobs WHERE state = 'completed';

CREATE VIEW jobs_readable AS
SELECT id, type, queue, state, stage, priority, attempt_count, max_attempts, claim_version, worker_id,
       CASE payload_format WHEN 'json' THEN convert_from(payload, 'UTF8') END AS payload,
       convert_from(result, 'UTF8') AS result, error, tags,
       to_timestamp(created_at / 1e6) AS created_at, to_timestamp(run_at / 1e6) AS run_at,
       to_timestamp(started_at / 1e6) AS started_at, to_timestamp(completed_at / 1e6) AS completed_at,
       to_timestamp(lease_expires_at / 1e6) AS lease_expires_at, to_timestamp(expires_at / 1e6) AS expires_at
FROM inbox_jobs;
