-- Which job a unique key was last given to. Whether that job still keeps others away, its own state says.
CREATE TABLE euterpe_unique_jobs (
    scope  TEXT NOT NULL,
    key    TEXT NOT NULL,
    job_id TEXT NOT NULL,
    PRIMARY KEY (scope, key)
) STRICT, WITHOUT ROWID;

-- Crons as the code declares them and as operators changed them. last_tick is the latest tick that was submitted.
CREATE TABLE euterpe_crons (
    name                TEXT NOT NULL PRIMARY KEY,
    type                TEXT NOT NULL,
    expression          TEXT NOT NULL,
    tz                  TEXT NOT NULL,
    declared_expression TEXT NOT NULL,
    declared_tz         TEXT NOT NULL,
    missed              TEXT NOT NULL,
    paused              INTEGER NOT NULL DEFAULT 0,
    last_tick           INTEGER,
    seen_at             INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
