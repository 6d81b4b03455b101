-- Who is signed in to the dashboard: the hash of a cookie, and the key that it stands for.
CREATE TABLE euterpe_sessions (
    token_hash BLOB    NOT NULL PRIMARY KEY,
    key_prefix TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX euterpe_sessions_expiry ON euterpe_sessions (expires_at);

-- All events of one job, also those that were delivered long ago.
CREATE INDEX job_outbox_events_job ON job_outbox_events (job_id);
