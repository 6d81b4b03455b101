-- Under which state the indexes file a job (ADR 017). A plain job in a chunk or under a receipt is filed as completed from its
-- insert on: that is how it ends, so its settle changes no indexed column and stays on its page (HOT). `state` tells what is true,
-- and no index knows it.
DROP INDEX inbox_jobs_claim, inbox_jobs_due, inbox_jobs_lifetime, inbox_jobs_state, inbox_jobs_concurrency,
    inbox_jobs_parked;

-- Postgres writes the table anew for this. Close together: what has ended needs no room, and half the pages are written.
ALTER TABLE inbox_jobs SET (fillfactor = 100);
ALTER TABLE inbox_jobs ADD COLUMN indexed_state text
    GENERATED ALWAYS AS (CASE WHEN state = 'scheduled' AND chunk IS NOT NULL THEN 'completed' ELSE state END) STORED;
ALTER TABLE inbox_jobs SET (fillfactor = 40);

CREATE INDEX inbox_jobs_state ON inbox_jobs (indexed_state, seq);
-- The state in words of its own: else Postgres, where it knows of few running jobs, looks through all of them for each key.
CREATE INDEX inbox_jobs_concurrency ON inbox_jobs ((requester_id || chr(31) || concurrency_key), (indexed_state || ''), seq)
    WHERE concurrency_key IS NOT NULL;
-- As it was. It is made anew because of two that would do, Postgres prefers the younger one as long as the table is empty.
CREATE INDEX inbox_jobs_parked ON inbox_jobs ((requester_id || chr(31) || concurrency_key), priority, seq)
    WHERE parked AND concurrency_key IS NOT NULL;
CREATE INDEX inbox_jobs_due ON inbox_jobs (run_at) WHERE indexed_state IN ('delayed', 'retrying');
-- The conditions of these two are in words that no other statement uses, see migration 1.
CREATE INDEX inbox_jobs_claim ON inbox_jobs (queue, priority, seq) WHERE indexed_state || '' = 'scheduled' AND NOT parked;
CREATE INDEX inbox_jobs_lifetime ON inbox_jobs (expires_at)
    WHERE '' || indexed_state IN ('pending', 'scheduled', 'delayed', 'retrying');

-- When the first lifetime of a receipt's jobs ends: they are not in inbox_jobs_lifetime any more.
ALTER TABLE euterpe_claims ADD COLUMN jobs_expire_at bigint NOT NULL DEFAULT 0;
