-- Where a job stands in the list of those that another depends on: a reference in its payload counts by it. NULL for
-- children that a fan-in waits for, and for edges that are older than this.
ALTER TABLE job_dependencies ADD COLUMN position INTEGER;
