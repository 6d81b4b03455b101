-- A key at its limit: what else of it is ready is parked too, so that no claim has to take each one to find that out.
UPDATE inbox_jobs SET parked = TRUE
WHERE id IN (SELECT id FROM inbox_jobs
             WHERE concurrency_key = :concurrency_key AND state = 'scheduled' AND NOT parked
             ORDER BY seq LIMIT 1000 {{skip_locked}})
