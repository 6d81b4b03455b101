-- The job that runs a failed one again. Who has one needs no act any more, and leaves its group of failures. What was
-- replayed before this migration has none.
ALTER TABLE inbox_jobs ADD COLUMN replayed_as uuid;

-- What the jobs of an operation had failed with, in words: once they are replayed, their fingerprint finds none of them.
ALTER TABLE euterpe_operations ADD COLUMN cause text;
