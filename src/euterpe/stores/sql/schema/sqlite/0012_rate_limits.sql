-- Rates that several processes keep together: when the next reservation under this name may begin.
CREATE TABLE euterpe_rate_limits (
    name    TEXT    NOT NULL PRIMARY KEY,
    next_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
