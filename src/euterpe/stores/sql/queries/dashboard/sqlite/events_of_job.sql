-- takes: id, limit
-- returns: listed_event_columns
-- locks: none
-- The webhook events of one job, newest first. Without their bodies, which may be large. That of its completion is not in the index by job: it is found by
-- the time of the completion, which is its own.
SELECT {{listed_event_columns}} FROM job_outbox_events AS e
WHERE e.seq IN (
    SELECT o.seq FROM job_outbox_events AS o WHERE o.job_id = :id AND o.type <> 'job.completed'
    UNION ALL
    SELECT c.seq FROM job_outbox_events AS c
    WHERE c.type = 'job.completed' AND c.created_at = (SELECT j.completed_at FROM inbox_jobs AS j WHERE j.id = :id) AND c.job_id = :id
)
ORDER BY e.seq DESC LIMIT :limit
