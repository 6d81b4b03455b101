-- Every table of the queue on Postgres. This file describes the data; the tables of SQLite have the same names and columns, but for what
-- claims go by (the line, the running claims, the counters of keys), which SQLite finds with indexes of inbox_jobs.
--
-- Tables that the contract names have plain names. All others begin with `euterpe_`, because the queue lives in the application's database.
-- Times are integer microseconds since the epoch (UTC). The view `euterpe_jobs` shows them as timestamps.
-- There are no foreign keys: a key check for each settled job costs more than the settle, and only retention deletes. It removes what
-- belongs together in one transaction.
-- A migration never changes after its release. A change of the schema is a new file with the next number.

-- JOBS --------------------------------------------------------------------------------------------------------------------------------

-- A job. Its row is the truth at every moment (ADR 021): a claim writes state, version, worker and lease onto it, a settle writes the end.
-- Columns stand in the order of their changes: what never changes, what operators change, what a claim changes, what claim and settle
-- change, what a settle changes. Postgres logs the bytes between the first and the last changed one.
-- No index mentions a column that a claim or a plain completion changes, and three versions of a row fit on its page (fillfactor 30:
-- another lane's snapshot stops pruning), so both updates stay on it (HOT). No CHECK lists the states: Postgres reads the text of every
-- CHECK anew at each statement.
CREATE TABLE inbox_jobs (
    seq                  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id                   uuid    NOT NULL UNIQUE,
    created_at           bigint  NOT NULL,
    expires_at           bigint  NOT NULL,
    execution_timeout_us bigint  NOT NULL,
    visibility_us        bigint  NOT NULL,
    max_attempts         integer NOT NULL,
    concurrency_limit    integer,
    depth                smallint NOT NULL DEFAULT 1,
    requester_id         text    NOT NULL,
    queue                text    NOT NULL,
    type                 text    NOT NULL,
    payload_format       text    NOT NULL DEFAULT 'json',
    callback_events      text    NOT NULL DEFAULT 'all',
    stages               text,
    retry_policy         text,
    idempotency_key      text,
    -- A retry must not put a second job beside the one that has this key now.
    unique_key           text,
    dependency           text,
    concurrency_key      text,
    parent_id            uuid,
    replay_of            uuid,
    payload              bytea   NOT NULL,
    run_at               bigint  NOT NULL,
    scheduled_at         bigint,
    priority             smallint NOT NULL CHECK (priority BETWEEN 0 AND 4),
    has_dependents       boolean NOT NULL DEFAULT false,
    pending_dependencies integer NOT NULL DEFAULT 0,
    release_count        integer NOT NULL DEFAULT 0,
    cancel_version       bigint,
    -- When the job failed. completed_at says so too, but a completed job must not touch the index of failures.
    failed_at            bigint,
    tags                 text,
    correlation_id       text,
    callback_url         text,
    -- The job that runs this failed one again. A job that has one leaves its group of failures.
    replayed_as          uuid,
    -- What failures of one cause have in common. Written when a job fails, and by nothing else.
    fingerprint          text,
    -- The state, where lists by state find it: NULL for what is scheduled, running or completed.
    listed               text,
    checkpoint           bytea,
    progress             double precision,
    progress_message     text,
    stage_ordinal        smallint NOT NULL DEFAULT 0,
    attempt_count        integer NOT NULL DEFAULT 0,
    started_at           bigint,
    heartbeat_at         bigint,
    claim_version        bigint  NOT NULL DEFAULT 0,
    worker_id            text,
    stage                text,
    state                text    NOT NULL,
    transitions          integer NOT NULL DEFAULT 1,
    updated_at           bigint  NOT NULL,
    lease_expires_at     bigint,
    completed_at         bigint,
    outcome_hash         bytea,
    result               bytea,
    error                text,
    -- The fence reads lease_expires_at and never state (ADR 003). This check makes the two the same thing.
    CONSTRAINT running_means_leased CHECK ((state = 'running') = (lease_expires_at IS NOT NULL)),
    -- Likewise for dependents: by the state, Postgres would find one by way of all that wait.
    CONSTRAINT pending_means_waiting CHECK ((state = 'pending') = (pending_dependencies > 0))
) WITH (fillfactor = 30, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0,
        autovacuum_vacuum_insert_scale_factor = 0.1, autovacuum_analyze_scale_factor = 0.05);

CREATE INDEX inbox_jobs_listed ON inbox_jobs (listed, seq) WHERE listed IS NOT NULL;
CREATE INDEX inbox_jobs_due ON inbox_jobs (run_at) WHERE listed IN ('delayed', 'retrying');
-- The condition is in words that no other statement uses, so that none is tempted to go by this index.
CREATE INDEX inbox_jobs_lifetime ON inbox_jobs (expires_at) WHERE '' || listed IN ('pending', 'delayed', 'retrying');
CREATE INDEX inbox_jobs_parent ON inbox_jobs (parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX inbox_jobs_failures ON inbox_jobs (fingerprint, seq, requester_id, failed_at) WHERE fingerprint IS NOT NULL;

-- The line: what is ready, in the order of claims. A row is a run: `jobs` jobs of one queue, type and priority with numbers from
-- `seq` on. A claim takes them from the front. What is in a run and not scheduled any more is passed over by the claim.
-- Every statement that makes a job scheduled puts it here, or into its key's own line, in the same transaction.
CREATE TABLE euterpe_line (
    seq        bigint   NOT NULL,
    expires_at bigint   NOT NULL,
    since      bigint   NOT NULL,
    rank       bigint   NOT NULL DEFAULT 0,
    jobs       integer  NOT NULL,
    priority   smallint NOT NULL,
    can_wait   boolean  NOT NULL,
    tells      boolean  NOT NULL,
    -- A claim with an older snapshot must tell the last job of a run that was shortened meanwhile from one that always stood alone.
    was_longer boolean  NOT NULL DEFAULT false,
    queue      text     NOT NULL,
    type       text     NOT NULL,
    key        text,
    -- When a job of a key was let in.
    admitted_at bigint
) WITH (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
-- Not unique: a job that left a longer run and came back stands in a run of its own, and the longer one may shrink to it.
CREATE INDEX euterpe_line_order ON euterpe_line (queue, type, priority, rank, seq);
-- So it has no primary key, and logical replication needs to know rows by all of their columns.
ALTER TABLE euterpe_line REPLICA IDENTITY FULL;
CREATE INDEX euterpe_line_key ON euterpe_line (key, priority, seq) WHERE key IS NOT NULL;

-- A row a claim: its jobs by their numbers, when the first of their leases ends, and who asked for it (0: nobody will ask for it again).
-- An index, and not the truth: whoever reads it asks the rows.
CREATE TABLE euterpe_running (
    claim      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    expires_at bigint   NOT NULL,
    request    bigint   NOT NULL,
    worker_id  text     NOT NULL,
    seqs       bigint[] NOT NULL
-- The numbers of a claim are over 2 kB, and a claim is over in a moment: to compress them costs a claim of 400 a twentieth of its time.
) WITH (toast_tuple_target = 8160, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX euterpe_running_expires ON euterpe_running (expires_at);

-- How many jobs of a concurrency key run, and how many are in the line. Changed in the transaction that claims, ends or admits one, and
-- nowhere else. A sweep counts them again, and deletes keys that nobody uses. Keys belong to a requester: the name is requester, chr(31),
-- key.
CREATE TABLE euterpe_keys (
    name         text    NOT NULL PRIMARY KEY,
    running      integer NOT NULL DEFAULT 0,
    in_line      integer NOT NULL DEFAULT 0,
    -- The smallest limit of those in the line: however they are claimed, none begins beside more than its own limit allows.
    least        integer,
    -- When its rate has a token for a job that waits for one.
    due_at       bigint,
    -- Kinds (queue, chr(31), type) that nobody took while they kept the key's places; others go before them for a while.
    passed       text[],
    passed_until bigint
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX euterpe_keys_due ON euterpe_keys (due_at) WHERE due_at IS NOT NULL;

-- The own line of a key: its jobs that are ready, and for which the key has no place yet. By kinds, so that a million jobs of a paused type
-- are never read.
CREATE TABLE euterpe_key_line (
    seq        bigint   NOT NULL,
    since      bigint   NOT NULL,
    expires_at bigint   NOT NULL,
    most       integer,
    priority   smallint NOT NULL,
    can_wait   boolean  NOT NULL,
    tells      boolean  NOT NULL,
    key        text     NOT NULL,
    queue      text     NOT NULL,
    type       text     NOT NULL,
    PRIMARY KEY (key, queue, type, priority, seq)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

-- Keys of jobs that were submitted in a caller's transaction. That may stay open for long, so it holds no key; a sweep admits them.
CREATE TABLE euterpe_entered_keys (
    name text NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE euterpe_entered_keys REPLICA IDENTITY FULL;

-- How many jobs of a concurrency key may start in a time: a token every interval_us, at most burst of them at once. full_at is when
-- the bucket is full again. held_until is until when the other side asked for a pause: a change of the rate keeps this time.
CREATE TABLE euterpe_key_rates (
    name        text NOT NULL PRIMARY KEY,
    interval_us bigint NOT NULL CHECK (interval_us > 0),
    burst       bigint NOT NULL CHECK (burst > 0),
    full_at     bigint NOT NULL,
    held_until  bigint NOT NULL DEFAULT 0
);

-- ATTEMPTS ----------------------------------------------------------------------------------------------------------------------------

-- An attempt lives on the job's row while it is open, and for good if it completed the job: that row never changes
-- again. Any other is written here when it ends. The view `job_attempts` shows all that ended.
CREATE TABLE euterpe_ended_attempts (
    job_id           uuid    NOT NULL,
    claim_version    bigint  NOT NULL,
    attempt          integer NOT NULL,
    worker_id        text,
    started_at       bigint  NOT NULL,
    ended_at         bigint  NOT NULL,
    outcome          text    NOT NULL,
    state            text    NOT NULL,
    error            text,
    outcome_hash     bytea,
    PRIMARY KEY (job_id, claim_version)
);

-- What a handler logged during an attempt, written when the attempt is settled and removed with the job.
CREATE TABLE euterpe_attempt_logs (
    job_id        uuid   NOT NULL,
    claim_version bigint NOT NULL,
    log           text   NOT NULL,
    PRIMARY KEY (job_id, claim_version)
);

-- DEPENDENCIES ------------------------------------------------------------------------------------------------------------------------

-- `position` is the place in the list of dependencies: a reference in the payload counts by it. NULL for children that a fan-in waits for.
CREATE TABLE job_dependencies (
    job_id     uuid NOT NULL,
    depends_on uuid NOT NULL,
    position   integer,
    PRIMARY KEY (job_id, depends_on)
);
CREATE INDEX job_dependencies_depends_on ON job_dependencies (depends_on);

-- A submit inside a caller's transaction must not hold the jobs that it depends on for as long as that lasts. It leaves a
-- row here; after the commit a sweep holds them for a moment, and sees to it that their ends are not missed.
CREATE TABLE euterpe_unwatched_dependencies (
    job_id     uuid NOT NULL PRIMARY KEY,
    depends_on text NOT NULL
);

-- WHAT IS SUBMITTED ONCE --------------------------------------------------------------------------------------------------------------

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

-- Which job a unique key was last given to. Whether that job still keeps others away, its own state says.
CREATE TABLE euterpe_unique_jobs (
    scope  text NOT NULL,
    key    text NOT NULL,
    job_id uuid NOT NULL,
    PRIMARY KEY (scope, key)
);

-- Crons as the code declares them and as operators changed them. last_tick is the latest tick that was submitted.
CREATE TABLE euterpe_crons (
    name                text NOT NULL PRIMARY KEY,
    type                text NOT NULL,
    expression          text NOT NULL,
    tz                  text NOT NULL,
    declared_expression text NOT NULL,
    declared_tz         text NOT NULL,
    missed              text NOT NULL,
    paused              boolean NOT NULL DEFAULT false,
    last_tick           bigint,
    seen_at             bigint NOT NULL
);

-- EVENTS ------------------------------------------------------------------------------------------------------------------------------

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
-- Retention goes by the time at which an event was done with, and reads none that it keeps.
CREATE INDEX job_outbox_events_over ON job_outbox_events (state, completed_at) WHERE completed_at IS NOT NULL;
-- Whose events wait, by requester: so that one whose receivers hang, or who has far more of them, does not go before all
-- others. The condition is in words that no other statement uses, so that none is tempted to go by this index.
CREATE INDEX job_outbox_events_turns ON job_outbox_events (requester_id, run_at, seq)
    WHERE state || '' IN ('scheduled', 'retrying');
-- All events of one job, also those that were delivered long ago. The condition is in words that no other statement uses,
-- so that the claim of events is not tempted to go by this index.
CREATE INDEX job_outbox_events_job ON job_outbox_events (job_id) WHERE sequence + 0 >= 0;

-- One row per POST of an event.
CREATE TABLE euterpe_outbox_deliveries (
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

-- RETENTION AND OPERATORS -------------------------------------------------------------------------------------------------------------

-- What retention removed, so that a pruned job answers 410 and an unknown one 404.
CREATE TABLE euterpe_tombstones (
    job_id       uuid   NOT NULL PRIMARY KEY,
    requester_id text   NOT NULL,
    state        text   NOT NULL,
    pruned_at    bigint NOT NULL
);
CREATE INDEX euterpe_tombstones_age ON euterpe_tombstones (pruned_at);

CREATE TABLE euterpe_pauses (
    kind      text   NOT NULL CHECK (kind IN ('queue', 'type')),
    name      text   NOT NULL,
    paused_at bigint NOT NULL,
    PRIMARY KEY (kind, name)
);

-- Acts on everything that matches a query. `place` moves down with every batch, in the transaction that acts on it.
-- `dependents` counts jobs that were replayed although they did not match: they had ended because of one that did. `cause` is what
-- the jobs had failed with, in words: once they are replayed, their fingerprint finds none of them.
CREATE TABLE euterpe_operations (
    id              uuid    NOT NULL PRIMARY KEY,
    ordered_by      text    NOT NULL,
    requester_id    text,
    action          text    NOT NULL CHECK (action IN ('cancel', 'retry', 'replay')),
    force           boolean NOT NULL DEFAULT false,
    query           text    NOT NULL,
    resolved        text    NOT NULL,
    cause           text,
    idempotency_key text,
    state           text    NOT NULL CHECK (state IN ('running', 'completed', 'cancelled')),
    place           bigint NOT NULL,
    total           bigint NOT NULL,
    total_exact     boolean NOT NULL,
    done            bigint NOT NULL DEFAULT 0,
    dependents      bigint NOT NULL DEFAULT 0,
    skipped         text    NOT NULL DEFAULT '{}',
    failed          bigint NOT NULL DEFAULT 0,
    error           text,
    created_at      bigint NOT NULL,
    updated_at      bigint NOT NULL,
    completed_at    bigint
);
CREATE UNIQUE INDEX euterpe_operations_key ON euterpe_operations (ordered_by, idempotency_key)
    WHERE idempotency_key IS NOT NULL;
CREATE INDEX euterpe_operations_running ON euterpe_operations (created_at) WHERE state = 'running';
CREATE INDEX euterpe_operations_age ON euterpe_operations (created_at, id);

-- Workers that are alive, as they tell it themselves every now and then. Who is silent until expires_at is not alive.
-- Nothing that a worker tells again is indexed, and pages have room: an update stays on its page.
CREATE TABLE euterpe_workers (
    worker_id  text NOT NULL PRIMARY KEY,
    facts      text NOT NULL,
    started_at bigint NOT NULL,
    seen_at    bigint NOT NULL,
    expires_at bigint NOT NULL
) WITH (fillfactor = 50);

-- Rates that several processes keep together: when the next reservation under this name may begin.
CREATE TABLE euterpe_rate_limits (
    name    text   NOT NULL PRIMARY KEY,
    next_at bigint NOT NULL
);

-- ACCOUNTS ----------------------------------------------------------------------------------------------------------------------------

CREATE TABLE euterpe_requesters (
    id         text   NOT NULL PRIMARY KEY,
    created_at bigint NOT NULL
);

CREATE TABLE euterpe_api_keys (
    prefix       text   NOT NULL PRIMARY KEY,
    requester_id text   NOT NULL,
    secret_hash  bytea  NOT NULL,
    scopes       text   NOT NULL,
    created_at   bigint NOT NULL,
    expires_at   bigint,
    revoked_at   bigint
);

-- What the lease tokens of HTTP workers are signed with. Control planes that have only key files share no KEK, so it lies here in the clear:
-- whoever can read this table can read and write the jobs themselves. The newest signs; all of them are valid.
CREATE TABLE euterpe_token_secrets (
    created_at bigint NOT NULL PRIMARY KEY,
    secret     bytea  NOT NULL
);

-- Who is signed in to the dashboard: the hash of a cookie, and the key that it stands for.
CREATE TABLE euterpe_sessions (
    token_hash bytea  NOT NULL PRIMARY KEY,
    key_prefix text   NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint NOT NULL
);
CREATE INDEX euterpe_sessions_expiry ON euterpe_sessions (expires_at);
-- The sessions of a key, newest last: a further sign-in ends the oldest.
CREATE INDEX euterpe_sessions_key ON euterpe_sessions (key_prefix, created_at);

CREATE TABLE euterpe_webhook_secrets (
    id                 text    NOT NULL PRIMARY KEY,
    requester_id       text    NOT NULL,
    encrypted          bytea   NOT NULL,
    dek_wrapped        bytea   NOT NULL,
    kek_id             text    NOT NULL,
    encryption_version integer NOT NULL,
    created_at         bigint  NOT NULL,
    retired_at         bigint
);
CREATE INDEX euterpe_webhook_secrets_requester ON euterpe_webhook_secrets (requester_id, created_at);

-- TRANSCODING -------------------------------------------------------------------------------------------------------------------------

-- What opens the places of a transcode, sealed; and where those places are, which is no secret.
-- The four columns of the seal are NULL once the job has ended.
CREATE TABLE euterpe_transcode_credentials (
    job_id                           uuid NOT NULL PRIMARY KEY,
    requester_id                     text NOT NULL,
    credential_version               integer NOT NULL,
    locations                        text NOT NULL,
    source_bucket                    text,
    source_key                       text,
    destination_bucket               text,
    destination_prefix               text,
    refresh_url                      text,
    refresh_id                       text,
    refresh_attempts                 integer NOT NULL DEFAULT 0,
    decrypt_failures                 integer NOT NULL DEFAULT 0,
    expires_at                       bigint,
    created_at                       bigint NOT NULL,
    updated_at                       bigint NOT NULL,
    storage_creds_encrypted          bytea,
    storage_creds_dek_wrapped        bytea,
    storage_creds_kek_id             text,
    storage_creds_encryption_version integer,
    CONSTRAINT sealed_whole_or_not_at_all CHECK (
        (storage_creds_encrypted IS NULL) = (storage_creds_dek_wrapped IS NULL)
        AND (storage_creds_encrypted IS NULL) = (storage_creds_kek_id IS NULL)
        AND (storage_creds_encrypted IS NULL) = (storage_creds_encryption_version IS NULL)
    )
);
CREATE INDEX euterpe_transcode_credentials_held ON euterpe_transcode_credentials (job_id)
    WHERE storage_creds_encrypted IS NOT NULL;

-- Multipart uploads that were begun and neither completed nor aborted.
CREATE TABLE euterpe_transcode_uploads (
    job_id        uuid NOT NULL,
    object_key    text NOT NULL,
    upload_id     text NOT NULL,
    claim_version integer NOT NULL,
    created_at    bigint NOT NULL,
    PRIMARY KEY (job_id, object_key, upload_id)
);

-- How long transcodes took, by the work they asked for: what an estimate is made of. The newest runs of each are kept.
CREATE TABLE euterpe_transcode_runs (
    work     text NOT NULL,
    ended_at bigint NOT NULL,
    job_id   uuid NOT NULL,
    media_ms bigint NOT NULL,
    run_ms   bigint NOT NULL,
    PRIMARY KEY (work, ended_at, job_id)
);

-- Work that requests with `reuse` share: the claim that does it, and what came of it once it is done.
CREATE TABLE euterpe_transcode_shared_work (
    requester_id  text NOT NULL,
    work_key      text NOT NULL,
    job_id        uuid NOT NULL,
    claim_version bigint NOT NULL,
    begun_at      bigint NOT NULL,
    done_at       bigint,
    result        text,
    PRIMARY KEY (requester_id, work_key),
    CONSTRAINT done_with_a_result CHECK ((done_at IS NULL) = (result IS NULL))
);

-- VIEWS -------------------------------------------------------------------------------------------------------------------------------

-- All attempts that ended.
CREATE VIEW job_attempts AS
SELECT job_id, claim_version, attempt, worker_id, started_at, ended_at, outcome, state, error, outcome_hash
FROM euterpe_ended_attempts
UNION ALL
SELECT id, claim_version, attempt_count, worker_id, started_at, completed_at, 'completed', state, NULL, outcome_hash
FROM inbox_jobs WHERE state = 'completed';

-- Jobs for people at a prompt.
CREATE VIEW euterpe_jobs AS
SELECT id, type, queue, state, stage, priority, attempt_count, max_attempts, claim_version, worker_id,
       CASE payload_format WHEN 'json' THEN convert_from(payload, 'UTF8') END AS payload,
       convert_from(result, 'UTF8') AS result, error, tags,
       to_timestamp(created_at / 1e6) AS created_at, to_timestamp(run_at / 1e6) AS run_at,
       to_timestamp(started_at / 1e6) AS started_at, to_timestamp(completed_at / 1e6) AS completed_at,
       to_timestamp(lease_expires_at / 1e6) AS lease_expires_at, to_timestamp(expires_at / 1e6) AS expires_at
FROM inbox_jobs;
