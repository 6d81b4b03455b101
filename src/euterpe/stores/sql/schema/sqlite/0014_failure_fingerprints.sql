-- What failures of one cause have in common; written when a job fails, and by nothing else. The time stands here a second
-- time because a completed job must not touch this index. Jobs that failed before this migration have none.
ALTER TABLE inbox_jobs ADD COLUMN fingerprint TEXT;
ALTER TABLE inbox_jobs ADD COLUMN failed_at INTEGER;
CREATE INDEX inbox_jobs_failures ON inbox_jobs (fingerprint, seq, requester_id, failed_at) WHERE fingerprint IS NOT NULL;
