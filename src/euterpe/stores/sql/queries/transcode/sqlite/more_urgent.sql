-- takes: job_id, most, type, queue, priority
-- returns: found
-- locks: none
-- Whether a more urgent job of this type waits, for which this one makes room; not again and again.
SELECT 1
WHERE (SELECT own.release_count FROM inbox_jobs AS own WHERE own.id = :job_id) < :most
  AND :type NOT IN (SELECT name FROM euterpe_pauses WHERE kind = 'type')
  AND NOT EXISTS (SELECT 1 FROM euterpe_pauses WHERE kind = 'queue' AND name = :queue)
  AND (EXISTS (SELECT 1 FROM inbox_jobs AS x INDEXED BY inbox_jobs_line
               WHERE x.line = '' AND x.queue = :queue AND x.type = :type AND x.state || '' = 'scheduled' AND x.priority < :priority)
       OR EXISTS (SELECT 1 FROM euterpe_key_fronts AS f WHERE f.queue = :queue AND f.type = :type AND f.priority < :priority))
