-- Which job a unique key was last given to. Whether that job still keeps others away, its own state says.
CREATE TABLE euterpe_unique_jobs (
    scope  text NOT NULL,
    key    text NOT NULL,
    job_id uuid NOT NULL,
    PRIMARY KEY (scope, key)
);
