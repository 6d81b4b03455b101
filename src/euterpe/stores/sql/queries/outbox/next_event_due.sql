-- takes: nothing
-- returns: min_run_at, now
-- locks: none
-- When the next event is due, and what time it is now.
SELECT MIN(run_at), {{now}} FROM job_outbox_events {{by job_outbox_events_due}} WHERE state IN ('scheduled', 'retrying')
