-- The unique key that a job was submitted with: a retry must not put a second one beside the job that has it now. Jobs
-- from before this migration have none.
ALTER TABLE inbox_jobs ADD COLUMN unique_key text;
