-- A key at its limit: what else of it is ready is parked too, so that no claim has to take each one to find that out.
UPDATE inbox_jobs SET parked = TRUE
WHERE id IN (SELECT j.id FROM inbox_jobs AS j
             WHERE {{limit_key}} = :limit_key AND j.concurrency_key IS NOT NULL AND {{key_state}} = 'scheduled' AND NOT j.parked
             ORDER BY j.seq LIMIT 1000 {{skip_locked}})
