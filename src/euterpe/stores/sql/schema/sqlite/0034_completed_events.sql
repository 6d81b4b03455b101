-- Job ids are random, so an entry by a job's id costs nearly a page an event. The event of a completion is the last of its job: no other waits for it. It is
-- found by the time of the completion instead, and entries in the order of time stand side by side.
DROP INDEX job_outbox_events_order;
CREATE INDEX job_outbox_events_order ON job_outbox_events (job_id, sequence) WHERE type <> 'job.completed';
CREATE INDEX job_outbox_events_completed ON job_outbox_events (created_at, job_id) WHERE type = 'job.completed';
