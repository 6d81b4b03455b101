-- A job of this key ended: let the oldest parked ones be claimed again.
UPDATE inbox_jobs SET parked = FALSE
WHERE seq IN (SELECT seq FROM inbox_jobs
              WHERE concurrency_key = :concurrency_key AND state = 'scheduled' AND parked
              ORDER BY priority, seq LIMIT :limit)
