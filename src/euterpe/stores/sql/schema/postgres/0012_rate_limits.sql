-- Rates that several processes keep together: when the next reservation under this name may begin.
CREATE TABLE euterpe_rate_limits (
    name    text   NOT NULL PRIMARY KEY,
    next_at bigint NOT NULL
);
