-- Every table of the queue on SQLite and libsql: the tables of Postgres with the same names and columns. SQLite has one writer, so what is
-- ready stands in an index of inbox_jobs; there is no table of the line, of running claims or of the counters of keys.
--
-- Tables that the contract names have plain names. All others begin with `euterpe_`, because the queue lives in the application's database.
-- Times are INTEGER microseconds since the epoch (UTC). The view `euterpe_jobs` shows them as timestamps.
-- A migration never changes after its release. A change of the schema is a new file with the next number.

-- JOBS --------------------------------------------------------------------------------------------------------------------------------

-- A job. Its row is the truth at every moment (ADR 021): a claim writes state, version, worker and lease onto it, a settle writes the end.
-- What may be large stands last: the columns behind an overflowing value are slow to reach.
-- No CHECK lists the states: SQLite would look a state up in the list at every write, a quarter of the work of claiming and completing.
CREATE TABLE inbox_jobs (
    seq                  INTEGER PRIMARY KEY,
    id                   TEXT    NOT NULL UNIQUE,
    requester_id         TEXT    NOT NULL,
    queue                TEXT    NOT NULL,
    type                 TEXT    NOT NULL,
    priority             INTEGER NOT NULL CHECK (priority BETWEEN 0 AND 4),
    payload_format       TEXT    NOT NULL DEFAULT 'json',
    callback_events      TEXT    NOT NULL DEFAULT 'all',
    max_attempts         INTEGER NOT NULL,
    depth                INTEGER NOT NULL DEFAULT 1,
    created_at           INTEGER NOT NULL,
    expires_at           INTEGER NOT NULL,
    execution_timeout_us INTEGER NOT NULL,
    visibility_us        INTEGER NOT NULL,
    concurrency_limit    INTEGER,
    stages               TEXT,
    retry_policy         TEXT,
    tags                 TEXT,
    correlation_id       TEXT,
    callback_url         TEXT,
    idempotency_key      TEXT,
    -- A retry must not put a second job beside the one that has this key now.
    unique_key           TEXT,
    dependency           TEXT,
    parent_id            TEXT,
    replay_of            TEXT,
    concurrency_key      TEXT,
    -- The line of a limited key: keys belong to a requester. Empty for jobs without one.
    line                 TEXT AS (IFNULL(requester_id || char(31) || concurrency_key, '')) VIRTUAL,
    state                TEXT    NOT NULL,
    stage                TEXT,
    stage_ordinal        INTEGER NOT NULL DEFAULT 0,
    attempt_count        INTEGER NOT NULL DEFAULT 0,
    release_count        INTEGER NOT NULL DEFAULT 0,
    claim_version        INTEGER NOT NULL DEFAULT 0,
    transitions          INTEGER NOT NULL DEFAULT 1,
    worker_id            TEXT,
    outcome_hash         BLOB,
    lease_expires_at     INTEGER,
    heartbeat_at         INTEGER,
    run_at               INTEGER NOT NULL,
    updated_at           INTEGER NOT NULL,
    scheduled_at         INTEGER,
    started_at           INTEGER,
    completed_at         INTEGER,
    cancel_version       INTEGER,
    pending_dependencies INTEGER NOT NULL DEFAULT 0,
    has_dependents       INTEGER NOT NULL DEFAULT false,
    -- When the job failed. completed_at says so too, but a completed job must not touch the index of failures.
    failed_at            INTEGER,
    -- What failures of one cause have in common. Written when a job fails, and by nothing else.
    fingerprint          TEXT,
    -- The job that runs this failed one again. A job that has one leaves its group of failures.
    replayed_as          TEXT,
    progress             REAL,
    progress_message     TEXT,
    payload              BLOB    NOT NULL,
    result               BLOB,
    error                TEXT,
    checkpoint           BLOB,
    -- The fence reads lease_expires_at; this check makes it the same thing as the state.
    CONSTRAINT running_means_leased CHECK ((state = 'running') = (lease_expires_at IS NOT NULL)),
    CONSTRAINT pending_means_waiting CHECK ((state = 'pending') = (pending_dependencies > 0))
) STRICT;

CREATE INDEX inbox_jobs_due ON inbox_jobs (run_at) WHERE state IN ('delayed', 'retrying');
CREATE INDEX inbox_jobs_lifetime ON inbox_jobs (expires_at) WHERE completed_at IS NULL AND state <> 'running';
CREATE INDEX inbox_jobs_state ON inbox_jobs (state, seq);
CREATE INDEX inbox_jobs_parent ON inbox_jobs (parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX inbox_jobs_failures ON inbox_jobs (fingerprint, seq, requester_id, failed_at) WHERE fingerprint IS NOT NULL;
-- What is ready stands in a line: of one queue and type, and of one concurrency key; that of jobs without a key is ''. A claim goes from
-- line to line by priority and number, so it never reads a job of a type that it does not ask for, nor one of a key that is full.
-- The conditions of this index and the next are in words that no other statement uses, so that none is tempted to go by them.
CREATE INDEX inbox_jobs_line ON inbox_jobs (line, queue, type, priority, seq) WHERE state || '' = 'scheduled';
-- What runs of a concurrency key: at most its limit, so it is counted whenever a place is asked for.
CREATE INDEX inbox_jobs_running_keys ON inbox_jobs (line) WHERE state || '' = 'running' AND concurrency_key IS NOT NULL;

-- The first job of each line of a concurrency key that has a place for it. Every transaction that changes what waits or runs of a key
-- finds its fronts anew (`admit`).
CREATE TABLE euterpe_key_fronts (
    seq      INTEGER PRIMARY KEY,
    name     TEXT    NOT NULL,
    queue    TEXT    NOT NULL,
    type     TEXT    NOT NULL,
    priority INTEGER NOT NULL
) STRICT;
CREATE INDEX euterpe_key_fronts_line ON euterpe_key_fronts (queue, type, priority, seq);
CREATE INDEX euterpe_key_fronts_name ON euterpe_key_fronts (name);

-- How many jobs of a concurrency key may start in a time: a token every interval_us, at most burst of them at once. full_at is when
-- the bucket is full again. held_until is until when the other side asked for a pause: a change of the rate keeps this time.
CREATE TABLE euterpe_key_rates (
    name        TEXT    NOT NULL PRIMARY KEY,
    interval_us INTEGER NOT NULL CHECK (interval_us > 0),
    burst       INTEGER NOT NULL CHECK (burst > 0),
    full_at     INTEGER NOT NULL,
    held_until  INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

-- ATTEMPTS ----------------------------------------------------------------------------------------------------------------------------

-- An attempt lives on the job's row while it is open, and for good if it completed the job: that row never changes
-- again. Any other is written here when it ends. The view `job_attempts` shows all that ended.
CREATE TABLE euterpe_ended_attempts (
    job_id           TEXT    NOT NULL,
    claim_version    INTEGER NOT NULL,
    attempt          INTEGER NOT NULL,
    worker_id        TEXT,
    started_at       INTEGER NOT NULL,
    ended_at         INTEGER NOT NULL,
    outcome          TEXT    NOT NULL,
    state            TEXT    NOT NULL,
    error            TEXT,
    outcome_hash     BLOB,
    PRIMARY KEY (job_id, claim_version)
) STRICT, WITHOUT ROWID;

-- What a handler logged during an attempt, written when the attempt is settled and removed with the job.
CREATE TABLE euterpe_attempt_logs (
    job_id        TEXT    NOT NULL,
    claim_version INTEGER NOT NULL,
    log           TEXT    NOT NULL,
    PRIMARY KEY (job_id, claim_version)
) STRICT, WITHOUT ROWID;

-- DEPENDENCIES ------------------------------------------------------------------------------------------------------------------------

-- `position` is the place in the list of dependencies: a reference in the payload counts by it. NULL for children that a fan-in waits for.
CREATE TABLE job_dependencies (
    job_id     TEXT    NOT NULL,
    depends_on TEXT    NOT NULL,
    position   INTEGER,
    PRIMARY KEY (job_id, depends_on)
) STRICT, WITHOUT ROWID;
CREATE INDEX job_dependencies_depends_on ON job_dependencies (depends_on);

-- WHAT IS SUBMITTED ONCE --------------------------------------------------------------------------------------------------------------

CREATE TABLE idempotency_keys (
    scope        TEXT    NOT NULL,
    key          TEXT    NOT NULL,
    request_hash BLOB    NOT NULL,
    job_id       TEXT    NOT NULL,
    response     BLOB,
    created_at   INTEGER NOT NULL,
    expires_at   INTEGER NOT NULL,
    PRIMARY KEY (scope, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_keys_expiry ON idempotency_keys (expires_at);

-- Which job a unique key was last given to. Whether that job still keeps others away, its own state says.
CREATE TABLE euterpe_unique_jobs (
    scope  TEXT    NOT NULL,
    key    TEXT    NOT NULL,
    job_id TEXT    NOT NULL,
    PRIMARY KEY (scope, key)
) STRICT, WITHOUT ROWID;

-- Crons as the code declares them and as operators changed them. last_tick is the latest tick that was submitted.
CREATE TABLE euterpe_crons (
    name                TEXT    NOT NULL PRIMARY KEY,
    type                TEXT    NOT NULL,
    expression          TEXT    NOT NULL,
    tz                  TEXT    NOT NULL,
    declared_expression TEXT    NOT NULL,
    declared_tz         TEXT    NOT NULL,
    missed              TEXT    NOT NULL,
    paused              INTEGER NOT NULL DEFAULT 0,
    last_tick           INTEGER,
    seen_at             INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- EVENTS ------------------------------------------------------------------------------------------------------------------------------

-- An event is owned by the same protocol as a job, so it has the same columns with the same names.
CREATE TABLE job_outbox_events (
    seq              INTEGER PRIMARY KEY,
    id               TEXT    NOT NULL UNIQUE,
    job_id           TEXT    NOT NULL,
    requester_id     TEXT    NOT NULL,
    sequence         INTEGER NOT NULL,
    type             TEXT    NOT NULL,
    url              TEXT    NOT NULL,
    origin           TEXT    NOT NULL,
    body             BLOB    NOT NULL,
    state            TEXT    NOT NULL,
    attempt_count    INTEGER NOT NULL DEFAULT 0,
    claim_version    INTEGER NOT NULL DEFAULT 0,
    worker_id        TEXT,
    lease_expires_at INTEGER,
    heartbeat_at     INTEGER,
    run_at           INTEGER NOT NULL,
    created_at       INTEGER NOT NULL,
    updated_at       INTEGER NOT NULL,
    started_at       INTEGER,
    completed_at     INTEGER,
    error            TEXT,
    CONSTRAINT running_means_leased CHECK ((state = 'running') = (lease_expires_at IS NOT NULL))
) STRICT;

CREATE INDEX job_outbox_events_due ON job_outbox_events (run_at, seq) WHERE state IN ('scheduled', 'retrying');
CREATE INDEX job_outbox_events_state ON job_outbox_events (state, seq);
-- Retention goes by the time at which an event was done with, and reads none that it keeps.
CREATE INDEX job_outbox_events_over ON job_outbox_events (state, completed_at) WHERE completed_at IS NOT NULL;
-- Whose events wait, by requester: so that one whose receivers hang, or who has far more of them, does not go before all
-- others. The condition is in words that no other statement uses, so that none is tempted to go by this index.
CREATE INDEX job_outbox_events_turns ON job_outbox_events (requester_id, run_at, seq)
    WHERE state || '' IN ('scheduled', 'retrying');
-- Events of a job are found by one index, whether they are delivered or not. Job ids are random, so an entry by a job's id costs nearly a
-- page an event. The event of a completion is the last of its job: no other waits for it. It is found by the time of the completion
-- instead, and entries in the order of time stand side by side.
CREATE INDEX job_outbox_events_order ON job_outbox_events (job_id, sequence) WHERE type <> 'job.completed';
CREATE INDEX job_outbox_events_completed ON job_outbox_events (created_at, job_id) WHERE type = 'job.completed';

-- One row per POST of an event.
CREATE TABLE euterpe_outbox_deliveries (
    event_id      TEXT    NOT NULL,
    claim_version INTEGER NOT NULL,
    attempt       INTEGER NOT NULL,
    worker_id     TEXT,
    started_at    INTEGER NOT NULL,
    ended_at      INTEGER NOT NULL,
    outcome       TEXT    NOT NULL,
    http_status   INTEGER,
    answer        TEXT,
    error         TEXT,
    PRIMARY KEY (event_id, claim_version)
) STRICT, WITHOUT ROWID;

-- RETENTION AND OPERATORS -------------------------------------------------------------------------------------------------------------

-- What retention removed, so that a pruned job answers 410 and an unknown one 404.
CREATE TABLE euterpe_tombstones (
    job_id       TEXT    NOT NULL PRIMARY KEY,
    requester_id TEXT    NOT NULL,
    state        TEXT    NOT NULL,
    pruned_at    INTEGER NOT NULL
) STRICT;
CREATE INDEX euterpe_tombstones_age ON euterpe_tombstones (pruned_at);

CREATE TABLE euterpe_pauses (
    kind      TEXT    NOT NULL CHECK (kind IN ('queue', 'type')),
    name      TEXT    NOT NULL,
    paused_at INTEGER NOT NULL,
    PRIMARY KEY (kind, name)
) STRICT, WITHOUT ROWID;

-- Acts on everything that matches a query. `place` moves down with every batch, in the transaction that acts on it.
-- `dependents` counts jobs that were replayed although they did not match: they had ended because of one that did. `cause` is what
-- the jobs had failed with, in words: once they are replayed, their fingerprint finds none of them.
CREATE TABLE euterpe_operations (
    id              TEXT    NOT NULL PRIMARY KEY,
    ordered_by      TEXT    NOT NULL,
    requester_id    TEXT,
    action          TEXT    NOT NULL CHECK (action IN ('cancel', 'retry', 'replay')),
    force           INTEGER NOT NULL DEFAULT false,
    query           TEXT    NOT NULL,
    resolved        TEXT    NOT NULL,
    cause           TEXT,
    idempotency_key TEXT,
    state           TEXT    NOT NULL CHECK (state IN ('running', 'completed', 'cancelled')),
    place           INTEGER NOT NULL,
    total           INTEGER NOT NULL,
    total_exact     INTEGER NOT NULL,
    done            INTEGER NOT NULL DEFAULT 0,
    dependents      INTEGER NOT NULL DEFAULT 0,
    skipped         TEXT    NOT NULL DEFAULT '{}',
    failed          INTEGER NOT NULL DEFAULT 0,
    error           TEXT,
    created_at      INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL,
    completed_at    INTEGER
) STRICT;
CREATE UNIQUE INDEX euterpe_operations_key ON euterpe_operations (ordered_by, idempotency_key)
    WHERE idempotency_key IS NOT NULL;
CREATE INDEX euterpe_operations_running ON euterpe_operations (created_at) WHERE state = 'running';
CREATE INDEX euterpe_operations_age ON euterpe_operations (created_at, id);

-- Workers that are alive, as they tell it themselves every now and then. Who is silent until expires_at is not alive.
CREATE TABLE euterpe_workers (
    worker_id  TEXT    NOT NULL PRIMARY KEY,
    facts      TEXT    NOT NULL,
    started_at INTEGER NOT NULL,
    seen_at    INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Rates that several processes keep together: when the next reservation under this name may begin.
CREATE TABLE euterpe_rate_limits (
    name    TEXT    NOT NULL PRIMARY KEY,
    next_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- ACCOUNTS ----------------------------------------------------------------------------------------------------------------------------

CREATE TABLE euterpe_requesters (
    id         TEXT    NOT NULL PRIMARY KEY,
    created_at INTEGER NOT NULL
) STRICT;

CREATE TABLE euterpe_api_keys (
    prefix       TEXT    NOT NULL PRIMARY KEY,
    requester_id TEXT    NOT NULL,
    secret_hash  BLOB    NOT NULL,
    scopes       TEXT    NOT NULL,
    created_at   INTEGER NOT NULL,
    expires_at   INTEGER,
    revoked_at   INTEGER
) STRICT;

-- What the lease tokens of HTTP workers are signed with. Control planes that have only key files share no KEK, so it lies here in the clear:
-- whoever can read this table can read and write the jobs themselves. The newest signs; all of them are valid.
CREATE TABLE euterpe_token_secrets (
    created_at INTEGER NOT NULL PRIMARY KEY,
    secret     BLOB    NOT NULL
) STRICT;

-- Who is signed in to the dashboard: the hash of a cookie, and the key that it stands for.
CREATE TABLE euterpe_sessions (
    token_hash BLOB    NOT NULL PRIMARY KEY,
    key_prefix TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX euterpe_sessions_expiry ON euterpe_sessions (expires_at);
-- The sessions of a key, newest last: a further sign-in ends the oldest.
CREATE INDEX euterpe_sessions_key ON euterpe_sessions (key_prefix, created_at);

CREATE TABLE euterpe_webhook_secrets (
    id                 TEXT    NOT NULL PRIMARY KEY,
    requester_id       TEXT    NOT NULL,
    encrypted          BLOB    NOT NULL,
    dek_wrapped        BLOB    NOT NULL,
    kek_id             TEXT    NOT NULL,
    encryption_version INTEGER NOT NULL,
    created_at         INTEGER NOT NULL,
    retired_at         INTEGER
) STRICT;
CREATE INDEX euterpe_webhook_secrets_requester ON euterpe_webhook_secrets (requester_id, created_at);

-- TRANSCODING -------------------------------------------------------------------------------------------------------------------------

-- What opens the places of a transcode, sealed; and where those places are, which is no secret.
-- The four columns of the seal are NULL once the job has ended.
CREATE TABLE euterpe_transcode_credentials (
    job_id                           TEXT    NOT NULL PRIMARY KEY,
    requester_id                     TEXT    NOT NULL,
    credential_version               INTEGER NOT NULL,
    locations                        TEXT    NOT NULL,
    source_bucket                    TEXT,
    source_key                       TEXT,
    destination_bucket               TEXT,
    destination_prefix               TEXT,
    refresh_url                      TEXT,
    refresh_id                       TEXT,
    refresh_attempts                 INTEGER NOT NULL DEFAULT 0,
    decrypt_failures                 INTEGER NOT NULL DEFAULT 0,
    expires_at                       INTEGER,
    created_at                       INTEGER NOT NULL,
    updated_at                       INTEGER NOT NULL,
    storage_creds_encrypted          BLOB,
    storage_creds_dek_wrapped        BLOB,
    storage_creds_kek_id             TEXT,
    storage_creds_encryption_version INTEGER,
    CONSTRAINT sealed_whole_or_not_at_all CHECK (
        (storage_creds_encrypted IS NULL) = (storage_creds_dek_wrapped IS NULL)
        AND (storage_creds_encrypted IS NULL) = (storage_creds_kek_id IS NULL)
        AND (storage_creds_encrypted IS NULL) = (storage_creds_encryption_version IS NULL)
    )
) STRICT;
CREATE INDEX euterpe_transcode_credentials_held ON euterpe_transcode_credentials (job_id)
    WHERE storage_creds_encrypted IS NOT NULL;

-- Multipart uploads that were begun and neither completed nor aborted.
CREATE TABLE euterpe_transcode_uploads (
    job_id        TEXT    NOT NULL,
    object_key    TEXT    NOT NULL,
    upload_id     TEXT    NOT NULL,
    claim_version INTEGER NOT NULL,
    created_at    INTEGER NOT NULL,
    PRIMARY KEY (job_id, object_key, upload_id)
) STRICT, WITHOUT ROWID;

-- How long transcodes took, by the work they asked for: what an estimate is made of. The newest runs of each are kept.
CREATE TABLE euterpe_transcode_runs (
    work     TEXT    NOT NULL,
    ended_at INTEGER NOT NULL,
    job_id   TEXT    NOT NULL,
    media_ms INTEGER NOT NULL,
    run_ms   INTEGER NOT NULL,
    PRIMARY KEY (work, ended_at, job_id)
) STRICT, WITHOUT ROWID;

-- Work that requests with `reuse` share: the claim that does it, and what came of it once it is done.
CREATE TABLE euterpe_transcode_shared_work (
    requester_id  TEXT    NOT NULL,
    work_key      TEXT    NOT NULL,
    job_id        TEXT    NOT NULL,
    claim_version INTEGER NOT NULL,
    begun_at      INTEGER NOT NULL,
    done_at       INTEGER,
    result        TEXT,
    PRIMARY KEY (requester_id, work_key),
    CONSTRAINT done_with_a_result CHECK ((done_at IS NULL) = (result IS NULL))
) STRICT, WITHOUT ROWID;

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
       CASE payload_format WHEN 'json' THEN CAST(payload AS TEXT) END AS payload,
       CAST(result AS TEXT) AS result, error, tags,
       strftime('%Y-%m-%d %H:%M:%f', created_at / 1e6, 'unixepoch') AS created_at,
       strftime('%Y-%m-%d %H:%M:%f', run_at / 1e6, 'unixepoch') AS run_at,
       strftime('%Y-%m-%d %H:%M:%f', started_at / 1e6, 'unixepoch') AS started_at,
       strftime('%Y-%m-%d %H:%M:%f', completed_at / 1e6, 'unixepoch') AS completed_at,
       strftime('%Y-%m-%d %H:%M:%f', lease_expires_at / 1e6, 'unixepoch') AS lease_expires_at,
       strftime('%Y-%m-%d %H:%M:%f', expires_at / 1e6, 'unixepoch') AS expires_at
FROM inbox_jobs;
