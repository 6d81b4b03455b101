-- What a claim of this queue would take next; the conditions of claim.sql, without taking anything.
SELECT {{job_columns}} FROM inbox_jobs AS j
WHERE j.state || '' = 'scheduled' AND NOT j.parked AND j.queue = :queue
  AND j.type NOT IN (SELECT name FROM pauses WHERE kind = 'type')
  AND NOT EXISTS (SELECT 1 FROM pauses WHERE kind = 'queue' AND name = :queue)
  AND j.expires_at > {{now}}
ORDER BY j.priority, j.seq
LIMIT :limit
