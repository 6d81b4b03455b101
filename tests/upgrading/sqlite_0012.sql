BEGIN TRANSACTION;
CREATE TABLE euterpe_api_keys (
    prefix       TEXT    NOT NULL PRIMARY KEY,
    requester_id TEXT    NOT NULL,
    secret_hash  BLOB    NOT NULL,
    scopes       TEXT    NOT NULL,
    created_at   INTEGER NOT NULL,
    expires_at   INTEGER,
    revoked_at   INTEGER
) STRICT;
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
    lease_token_hash BLOB,
    outcome_hash     BLOB,
    PRIMARY KEY (job_id, claim_version)
) STRICT, WITHOUT ROWID;
INSERT INTO "euterpe_ended_attempts" VALUES('70670445-a3d9-4cb6-848a-dd7de87576be',1,1,'worker:0d0b3e6c-5a01-4e9c-a47f-738a78a70adc',1794887904560772,1794887904583716,'temporary','dead_letter','{"code":"temporary","category":"temporary","message":"upstream is down","retryable":false,"attempt":1,"stack":"Traceback (most recent call last):\n  File \"/tmp/shipold/src/euterpe/worker/attempt.py\", line 123, in run\n    value = await (self._start() if self.handler.mode == \"async\" else self._elsewhere(means))\n            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n  File \"/tmp/makeold.py\", line 12, in dies\n    async def dies(n: int) -> None: raise euterpe.TemporaryError(\"upstream is down\")\n                                    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\neuterpe.model.errors.TemporaryError: upstream is down\n"}',NULL,NULL);
CREATE TABLE euterpe_migrations (
    version    integer NOT NULL PRIMARY KEY,
    name       text    NOT NULL,
    applied_at bigint  NOT NULL
);
INSERT INTO "euterpe_migrations" VALUES(1,'jobs',1794887904452578);
INSERT INTO "euterpe_migrations" VALUES(2,'prefixed_names',1794887904452615);
INSERT INTO "euterpe_migrations" VALUES(4,'locks_and_limits',1794887904452754);
INSERT INTO "euterpe_migrations" VALUES(6,'event_turns',1794887904452797);
INSERT INTO "euterpe_migrations" VALUES(7,'transcode_credentials',1794887904452954);
INSERT INTO "euterpe_migrations" VALUES(12,'rate_limits',1794887904452998);
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
CREATE TABLE euterpe_pauses (
    kind      TEXT    NOT NULL CHECK (kind IN ('queue', 'type')),
    name      TEXT    NOT NULL,
    paused_at INTEGER NOT NULL,
    PRIMARY KEY (kind, name)
) STRICT, WITHOUT ROWID;
INSERT INTO "euterpe_pauses" VALUES('type','paused',1794887905093062);
CREATE TABLE euterpe_rate_limits (
    name    TEXT    NOT NULL PRIMARY KEY,
    next_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE euterpe_requesters (
    id         TEXT    NOT NULL PRIMARY KEY,
    created_at INTEGER NOT NULL
) STRICT;
CREATE TABLE euterpe_tombstones (
    job_id       TEXT    NOT NULL PRIMARY KEY,
    requester_id TEXT    NOT NULL,
    state        TEXT    NOT NULL,
    pruned_at    INTEGER NOT NULL
) STRICT;
CREATE TABLE euterpe_transcode_credentials (
    job_id                           TEXT NOT NULL PRIMARY KEY,
    requester_id                     TEXT NOT NULL,
    credential_version               INTEGER NOT NULL,
    locations                        TEXT NOT NULL,
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
CREATE TABLE euterpe_transcode_uploads (
    job_id        TEXT NOT NULL,
    object_key    TEXT NOT NULL,
    upload_id     TEXT NOT NULL,
    claim_version INTEGER NOT NULL,
    created_at    INTEGER NOT NULL,
    PRIMARY KEY (job_id, object_key, upload_id)
) STRICT, WITHOUT ROWID;
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
INSERT INTO "idempotency_keys" VALUES('5:local/greet','hello',X'70BB070359C9451423B88BB3A4F1A505B91163C604B5671BB1818A07377F1B26','6263395d-bd1d-49b1-8f67-e076035e4ee8',X'7B226A6F625F6964223A2236323633333935642D626431642D343962312D386636372D653037363033356534656538222C2274797065223A226772656574222C227175657565223A2264656661756C74222C227374617465223A227363686564756C6564222C227072696F72697479223A2268696768222C22637265617465645F6174223A22323032362D31312D31375430333A35383A32352E3032383932395A222C22636F7272656C6174696F6E5F6964223A6E756C6C7D',1794887905028005,1794974305028005);
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
INSERT INTO "inbox_jobs" VALUES(1,'e1a280ed-874b-4a03-b094-2ff911eb2682','local','default','done',2,'json','all',3,1,1794887904512535,1795492704512535,1800000000,300000000,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'completed','claimed',0,1,0,1,3,'worker:0d0b3e6c-5a01-4e9c-a47f-738a78a70adc',NULL,NULL,NULL,1794887904560772,1794887904512535,1794887904583716,1794887904512535,1794887904560772,1794887904583716,NULL,0,0,0,NULL,NULL,X'7B226E223A317D',X'7B226E223A317D',NULL,NULL);
INSERT INTO "inbox_jobs" VALUES(2,'70670445-a3d9-4cb6-848a-dd7de87576be','local','default','dies',2,'json','all',1,1,1794887904549573,1795492704549573,1800000000,300000000,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'dead_letter','claimed',0,1,0,1,4,'worker:0d0b3e6c-5a01-4e9c-a47f-738a78a70adc',NULL,NULL,NULL,1794887904560772,1794887904549573,1794887904583716,1794887904549573,1794887904560772,1794887904583716,NULL,0,0,0,NULL,NULL,X'7B226E223A327D',NULL,'{"code":"temporary","category":"temporary","message":"upstream is down","retryable":false,"attempt":1,"stack":"Traceback (most recent call last):\n  File \"/tmp/shipold/src/euterpe/worker/attempt.py\", line 123, in run\n    value = await (self._start() if self.handler.mode == \"async\" else self._elsewhere(means))\n            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n  File \"/tmp/makeold.py\", line 12, in dies\n    async def dies(n: int) -> None: raise euterpe.TemporaryError(\"upstream is down\")\n                                    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\neuterpe.model.errors.TemporaryError: upstream is down\n"}',NULL);
INSERT INTO "inbox_jobs" VALUES(3,'6263395d-bd1d-49b1-8f67-e076035e4ee8','local','default','greet',1,'json','all',3,1,1794887905028929,1795492705028929,1800000000,300000000,NULL,NULL,NULL,'{"team":"a"}',NULL,'https://receiver.example/hook','hello',NULL,NULL,NULL,NULL,'scheduled',NULL,0,0,0,0,1,NULL,NULL,NULL,NULL,NULL,1794887905028929,1794887905028929,1794887905028929,NULL,NULL,NULL,0,1,0,NULL,NULL,X'7B226E616D65223A22616461227D',NULL,NULL,NULL);
INSERT INTO "inbox_jobs" VALUES(4,'7bbe7712-d5d9-4d2c-ada7-ab94f4f4fd44','local','default','greet',1,'json','all',3,2,1794887905044992,1795492705044992,1800000000,300000000,NULL,NULL,NULL,NULL,NULL,'https://receiver.example/hook',NULL,'after',NULL,NULL,NULL,'pending',NULL,0,0,0,0,1,NULL,NULL,NULL,NULL,NULL,1794887905044992,1794887905044992,NULL,NULL,NULL,NULL,1,0,0,NULL,NULL,X'7B226E616D65223A226166746572227D',NULL,NULL,NULL);
INSERT INTO "inbox_jobs" VALUES(5,'2476b903-4129-46ae-b7cb-f31604f3c5dc','local','default','greet',2,'json','all',3,1,1794887905069733,1795492705069733,1800000000,300000000,NULL,NULL,NULL,NULL,NULL,'https://receiver.example/hook',NULL,NULL,NULL,NULL,NULL,'delayed',NULL,0,0,0,0,1,NULL,NULL,NULL,NULL,NULL,1794887905169733,1794887905069733,NULL,NULL,NULL,NULL,0,0,0,NULL,NULL,X'7B226E616D65223A226C61746572227D',NULL,NULL,NULL);
INSERT INTO "inbox_jobs" VALUES(6,'f8dfe621-bc55-45a3-bc02-bae6be89c421','local','lost','greet',2,'json','all',3,1,1794887905075789,1795492705075789,1800000000,1000000,NULL,NULL,NULL,NULL,NULL,'https://receiver.example/hook',NULL,NULL,NULL,NULL,NULL,'running','claimed',0,1,0,1,2,'gone',NULL,NULL,1794887906077716,1794887905077716,1794887905075789,1794887905077716,1794887905075789,1794887905077716,NULL,NULL,0,0,0,NULL,NULL,X'7B226E616D65223A2274616B656E227D',NULL,NULL,NULL);
CREATE TABLE job_dependencies (
    job_id     TEXT    NOT NULL,
    depends_on TEXT    NOT NULL,
    PRIMARY KEY (job_id, depends_on)
) STRICT, WITHOUT ROWID;
INSERT INTO "job_dependencies" VALUES('7bbe7712-d5d9-4d2c-ada7-ab94f4f4fd44','6263395d-bd1d-49b1-8f67-e076035e4ee8');
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
INSERT INTO "job_outbox_events" VALUES(1,'de34a84c-874e-4f99-97f0-b0d7d8d4632e','f8dfe621-bc55-45a3-bc02-bae6be89c421','local',2,'job.running','https://receiver.example/hook','https://receiver.example',X'7B226576656E745F6964223A2264653334613834632D383734652D346639392D393766302D623064376438643436333265222C2274797065223A226A6F622E72756E6E696E67222C227061796C6F61645F76657273696F6E223A312C2273657175656E6365223A322C22637265617465645F6174223A22323032362D31312D31375430333A35383A32352E3037373731365A222C226A6F62223A7B226A6F625F6964223A2266386466653632312D626335352D343561332D626330322D626165366265383963343231222C2274797065223A226772656574222C227175657565223A226C6F7374222C227374617465223A2272756E6E696E67222C227374616765223A22636C61696D6564222C22737461747573223A22636C61696D6564222C227072696F72697479223A226E6F726D616C222C22617474656D7074223A312C226D61785F617474656D707473223A332C22617474656D70745F6964223A2266386466653632312D626335352D343561332D626330322D6261653662653839633432313A31222C2270726576696F75735F617474656D70745F6964223A6E756C6C2C22636C61696D5F76657273696F6E223A312C22776F726B65725F6964223A22676F6E65222C2270726F6772657373223A6E756C6C2C2274616773223A7B7D2C22636F7272656C6174696F6E5F6964223A6E756C6C2C2263616C6C6261636B5F75726C223A2268747470733A2F2F72656365697665722E6578616D706C652F686F6F6B222C22706172656E745F6964223A6E756C6C2C227265706C61795F6F66223A6E756C6C2C22637265617465645F6174223A22323032362D31312D31375430333A35383A32352E3037353738395A222C22757064617465645F6174223A22323032362D31312D31375430333A35383A32352E3037373731365A222C2272756E5F6174223A22323032362D31312D31375430333A35383A32352E3037353738395A222C227363686564756C65645F6174223A22323032362D31312D31375430333A35383A32352E3037353738395A222C22737461727465645F6174223A22323032362D31312D31375430333A35383A32352E3037373731365A222C22636F6D706C657465645F6174223A6E756C6C2C22657870697265735F6174223A22323032362D31312D32345430333A35383A32352E3037353738395A222C226865617274626561745F6174223A22323032362D31312D31375430333A35383A32352E3037373731365A222C226C656173655F657870697265735F6174223A22323032362D31312D31375430333A35383A32362E3037373731365A227D7D','scheduled',0,0,NULL,NULL,NULL,1794887905077716,1794887905077716,1794887905077716,NULL,NULL,NULL);
CREATE INDEX inbox_jobs_claim ON inbox_jobs (queue, priority, seq) WHERE state || '' = 'scheduled' AND NOT parked;
CREATE INDEX inbox_jobs_due ON inbox_jobs (run_at) WHERE state IN ('delayed', 'retrying');
CREATE INDEX inbox_jobs_lifetime ON inbox_jobs (expires_at) WHERE completed_at IS NULL AND state <> 'running';
CREATE INDEX inbox_jobs_state ON inbox_jobs (state, seq);
CREATE INDEX inbox_jobs_parent ON inbox_jobs (parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX job_dependencies_depends_on ON job_dependencies (depends_on);
CREATE INDEX idempotency_keys_expiry ON idempotency_keys (expires_at);
CREATE INDEX job_outbox_events_due ON job_outbox_events (run_at, seq) WHERE state IN ('scheduled', 'retrying');
CREATE INDEX job_outbox_events_order ON job_outbox_events (job_id, sequence)
    WHERE state IN ('scheduled', 'running', 'retrying');
CREATE INDEX job_outbox_events_state ON job_outbox_events (state, seq);
CREATE INDEX euterpe_tombstones_age ON euterpe_tombstones (pruned_at);
CREATE INDEX euterpe_webhook_secrets_requester ON euterpe_webhook_secrets (requester_id, created_at);
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
CREATE INDEX inbox_jobs_concurrency ON inbox_jobs ((requester_id || char(31) || concurrency_key), state, seq)
    WHERE concurrency_key IS NOT NULL;
CREATE INDEX inbox_jobs_parked ON inbox_jobs ((requester_id || char(31) || concurrency_key), priority, seq) WHERE parked;
CREATE INDEX job_outbox_events_over ON job_outbox_events (state, completed_at) WHERE completed_at IS NOT NULL;
CREATE INDEX job_outbox_events_turns ON job_outbox_events (requester_id, run_at, seq)
    WHERE state || '' IN ('scheduled', 'retrying');
CREATE INDEX euterpe_transcode_credentials_held ON euterpe_transcode_credentials (job_id)
    WHERE storage_creds_encrypted IS NOT NULL;
COMMIT;
