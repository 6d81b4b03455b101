-- A job of this key ended: let the most urgent parked ones be claimed again.
UPDATE inbox_jobs SET parked = FALSE
WHERE seq IN (SELECT seq FROM inbox_jobs
              WHERE concurrency_key = :concurrency_key AND parked
              ORDER BY priority, seq LIMIT :limit)
RETURNING queue
