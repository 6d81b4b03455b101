-- Events of a job are found by one index, whether they are delivered or not. Ids are random, so each index by an id costs a page an event.
DROP INDEX job_outbox_events_job;
DROP INDEX job_outbox_events_order;
CREATE INDEX job_outbox_events_order ON job_outbox_events (job_id, sequence);
