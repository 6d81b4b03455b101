-- Hold those of these plain jobs that nobody else holds, in their order.
SELECT CAST(j.id AS text) FROM inbox_jobs AS j
WHERE j.id {{in ids uuid}} AND j.chunk IS NOT NULL AND j.state || '' = 'scheduled'
ORDER BY j.id FOR NO KEY UPDATE OF j SKIP LOCKED
