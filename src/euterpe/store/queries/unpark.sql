-- Jobs of this key ended: let the most urgent parked ones be claimed again. A parked job that somebody holds is
-- about to be changed by them; waiting for it here could be waiting for each other.
UPDATE inbox_jobs SET parked = FALSE
WHERE id IN (SELECT id FROM inbox_jobs
             WHERE concurrency_key = :concurrency_key AND parked
             ORDER BY priority, seq LIMIT :limit {{skip_locked}})
RETURNING queue
