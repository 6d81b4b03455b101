-- Jobs, their attempts and dependencies, idempotency keys and the outbox.
-- Times are INTEGER microseconds since the epoch (UTC); the view `jobs_readable` shows them as timestamps.
-- The Postgres schema, column for column.

CREATE TABLE inbox_jobs (
    -- What may be large stands last: the columns behind an overflowing value are slow to reach.
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
    dependency           TEXT,
    parent_id            TEXT,
    replay_of            TEXT,
    concurrency_key      TEXT,
    state                TEXT    NOT NULL CHECK (state IN ('pending', 'scheduled', 'delayed', 'running', 'retrying',
                                                           'completed', 'failed', 'dead_letter', 'cancelled')),
    stage                TEXT,
    stage_ordinal        INTEGER NOT NULL DEFAULT 0,
    attempt_count        INTEGER NOT NULL DEFAULT 0,
    release_count        INTEGER NOT NULL DEFAULT 0,
    claim_version        INTEGER NOT NULL DEFAULT 0,
    transitions          INTEGER NOT NULL DEFAULT 1,
    worker_id            TEXT,
    lease_token_hash     BLOB,
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
    parked               INTEGER NOT NULL DEFAULT false,
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
    job_id           TEXT    NOT NULL,
    claim_version    INTEGER NOT NULL,
    attempt          INTEGER NOT NULL,
    worker_id        TEXT,
    started_at       INTEGER NOT NULL,
    ended_at         INTEGER NOT NULL,
    outcome          TEXT    NOT NULL,
    state            TEXT    NOT NULL,
    error            TEXT,
    lease_token_hash BLOB,
    outcome_hash     BLOB,
    PRIMARY KEY (job_id, claim_version)
) STRICT, WITHOUT ROWID;

CREATE TABLE job_dependencies (
    job_id     TEXT    NOT NULL,
    depends_on TEXT    NOT NULL,
    PRIMARY KEY (job_id, depends_on)
) STRICT, WITHOUT ROWID;
CREATE INDEX job_dependencies_depends_on ON job_dependencies (depends_on);

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
    state            TEXT    NOT NULL CHECK (state IN ('scheduled', 'running', 'retrying', 'completed', 'dead_letter')),
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
CREATE INDEX job_outbox_events_order ON job_outbox_events (job_id, sequence)
    WHERE state IN ('scheduled', 'running', 'retrying');
CREATE INDEX job_outbox_events_state ON job_outbox_events (state, seq);

-- One row per POST of an event.
CREATE TABLE outbox_deliveries (
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

-- What retention removed, so that a pruned job answers 410 and an unknown one 404.
CREATE TABLE job_tombstones (
    job_id       TEXT    NOT NULL PRIMARY KEY,
    requester_id TEXT    NOT NULL,
    state        TEXT    NOT NULL,
    pruned_at    INTEGER NOT NULL
) STRICT;
CREATE INDEX job_tombstones_age ON job_tombstones (pruned_at);

CREATE TABLE pauses (
    kind      TEXT    NOT NULL CHECK (kind IN ('queue', 'type')),
    name      TEXT    NOT NULL,
    paused_at INTEGER NOT NULL,
    PRIMARY KEY (kind, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE requesters (
    id         TEXT    NOT NULL PRIMARY KEY,
    created_at INTEGER NOT NULL
) STRICT;

CREATE TABLE webhook_secrets (
    id                 TEXT    NOT NULL PRIMARY KEY,
    requester_id       TEXT    NOT NULL,
    encrypted          BLOB    NOT NULL,
    dek_wrapped        BLOB    NOT NULL,
    kek_id             TEXT    NOT NULL,
    encryption_version INTEGER NOT NULL,
    created_at         INTEGER NOT NULL,
    retired_at         INTEGER
) STRICT;
CREATE INDEX webhook_secrets_requester ON webhook_secrets (requester_id, created_at);

CREATE TABLE api_keys (
    prefix       TEXT    NOT NULL PRIMARY KEY,
    requester_id TEXT    NOT NULL,
    secret_hash  BLOB    NOT NULL,
    scopes       TEXT    NOT NULL,
    created_at   INTEGER NOT NULL,
    expires_at   INTEGER,
    revoked_at   INTEGER
) STRICT;

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
       CASE payload_format WHEN 'json' THEN CAST(payload AS TEXT) END AS payload,
       CAST(result AS TEXT) AS result, error, tags,
       strftime('%Y-%m-%d %H:%M:%f', created_at / 1e6, 'unixepoch') AS created_at,
       strftime('%Y-%m-%d %H:%M:%f', run_at / 1e6, 'unixepoch') AS run_at,
       strftime('%Y-%m-%d %H:%M:%f', started_at / 1e6, 'unixepoch') AS started_at,
       strftime('%Y-%m-%d %H:%M:%f', completed_at / 1e6, 'unixepoch') AS completed_at,
       strftime('%Y-%m-%d %H:%M:%f', lease_expires_at / 1e6, 'unixepoch') AS lease_expires_at,
       strftime('%Y-%m-%d %H:%M:%f', expires_at / 1e6, 'unixepoch') AS expires_at
FROM inbox_jobs;
