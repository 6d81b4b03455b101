-- Workers that are alive, as they tell it themselves every now and then. Who is silent until expires_at is not alive.
CREATE TABLE euterpe_workers (
    worker_id  TEXT NOT NULL PRIMARY KEY,
    facts      TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    seen_at    INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
