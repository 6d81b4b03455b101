-- The most urgent parked job of a key that may be claimed.
SELECT j.priority, j.seq FROM inbox_jobs AS j
WHERE {{limit_key}} = :limit_key AND j.parked
  AND j.type NOT IN (SELECT name FROM euterpe_pauses WHERE kind = 'type')
  AND j.queue NOT IN (SELECT name FROM euterpe_pauses WHERE kind = 'queue')
ORDER BY j.priority, j.seq LIMIT 1
