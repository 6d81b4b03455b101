-- takes: queue, type, priority, job_id, most
-- returns: found
-- locks: none
-- Whether a more urgent job of this type waits, for which this one makes room; not again and again.
SELECT 1 FROM euterpe_line AS r
WHERE r.queue = :queue AND r.type = :type AND r.priority < :priority
  AND (SELECT own.release_count FROM inbox_jobs AS own WHERE own.id = :job_id) < :most
LIMIT 1
