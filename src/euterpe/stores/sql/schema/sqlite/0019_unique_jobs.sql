-- Which job a unique key was last given to. Whether that job still keeps others away, its own state says.
CREATE TABLE euterpe_unique_jobs (
    scope  TEXT NOT NULL,
    key    TEXT NOT NULL,
    job_id TEXT NOT NULL,
    PRIMARY KEY (scope, key)
) STRICT, WITHOUT ROWID;
