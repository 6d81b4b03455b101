-- Concurrency keys are counted by requester. The expression is that of `limit_key.sql`, word for word.
DROP INDEX inbox_jobs_concurrency;
DROP INDEX inbox_jobs_parked;
CREATE INDEX inbox_jobs_concurrency ON inbox_jobs ((requester_id || char(31) || concurrency_key), state, seq)
    WHERE concurrency_key IS NOT NULL;
CREATE INDEX inbox_jobs_parked ON inbox_jobs ((requester_id || char(31) || concurrency_key), priority, seq) WHERE parked;

-- Retention goes by the time at which an event was done with, and reads none that it keeps.
CREATE INDEX job_outbox_events_over ON job_outbox_events (state, completed_at) WHERE completed_at IS NOT NULL;
