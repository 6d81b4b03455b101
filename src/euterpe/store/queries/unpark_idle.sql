-- Safety net: keys with parked jobs and nothing running.
UPDATE inbox_jobs SET parked = FALSE
WHERE seq IN (SELECT p.seq FROM inbox_jobs AS p
              WHERE p.concurrency_key IS NOT NULL AND p.state = 'scheduled' AND p.parked
                AND NOT EXISTS (SELECT 1 FROM inbox_jobs AS r
                                WHERE r.concurrency_key = p.concurrency_key AND r.state = 'running')
              LIMIT :limit)
RETURNING 1
