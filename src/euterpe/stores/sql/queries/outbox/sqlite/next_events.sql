-- Of the due events d: of each job only the first undelivered one, so that order holds, and none to a receiver that rests. The index by job has no
-- completions, which are the last of their jobs and earlier than nothing; its words must be said.
AND NOT EXISTS (SELECT 1 FROM job_outbox_events AS earlier
                WHERE earlier.job_id = d.job_id AND earlier.sequence < d.sequence AND earlier.type <> 'job.completed'
                  AND earlier.state IN ('scheduled', 'running', 'retrying'))
AND NOT (d.requester_id || ' ' || d.origin {{in skip text}})
ORDER BY d.run_at, d.seq
LIMIT :limit
