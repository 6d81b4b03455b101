-- Who is signed in to the dashboard: the hash of a cookie, and the key that it stands for.
CREATE TABLE euterpe_sessions (
    token_hash BLOB    NOT NULL PRIMARY KEY,
    key_prefix TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX euterpe_sessions_expiry ON euterpe_sessions (expires_at);

-- All events of one job, also those that were delivered long ago. The condition is in words that no other statement uses,
-- so that the claim of events is not tempted to go by this index.
CREATE INDEX job_outbox_events_job ON job_outbox_events (job_id) WHERE sequence + 0 >= 0;
