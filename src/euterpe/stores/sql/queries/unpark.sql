-- Jobs of this key ended: let the most urgent parked ones be claimed again, but none that is paused, which would leave
-- the slot empty. A parked job that somebody holds is about to be changed by them; waiting for it here could be waiting
-- for each other. If it stays parked, `free_keys` finds it.
UPDATE inbox_jobs SET parked = FALSE
WHERE id IN (SELECT j.id FROM inbox_jobs AS j
             WHERE {{limit_key}} = :limit_key AND j.parked
               AND j.type NOT IN (SELECT name FROM euterpe_pauses WHERE kind = 'type')
               AND j.queue NOT IN (SELECT name FROM euterpe_pauses WHERE kind = 'queue')
             ORDER BY j.priority, j.seq LIMIT :limit {{skip_locked}})
RETURNING queue
