-- Which job a unique key was last given to. Whether that job still keeps others away, its own state says.
CREATE TABLE euterpe_unique_jobs (
    scope  text NOT NULL,
    key    text NOT NULL,
    job_id uuid NOT NULL,
    PRIMARY KEY (scope, key)
);

-- Crons as the code declares them and as operators changed them. last_tick is the latest tick that was submitted.
CREATE TABLE euterpe_crons (
    name                text NOT NULL PRIMARY KEY,
    type                text NOT NULL,
    expression          text NOT NULL,
    tz                  text NOT NULL,
    declared_expression text NOT NULL,
    declared_tz         text NOT NULL,
    missed              text NOT NULL,
    paused              boolean NOT NULL DEFAULT false,
    last_tick           bigint,
    seen_at             bigint NOT NULL
);
