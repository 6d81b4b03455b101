-- takes: state, keep_us, limit
-- returns: id
-- locks: skips
-- Delivered or dead events past retention; their delivery log goes with them. The conditions hold on the row that is
-- locked: one that was just redelivered is not over any more.
WITH expired AS MATERIALIZED (
    SELECT id FROM job_outbox_events {{by job_outbox_events_over}}
    WHERE state = :state AND completed_at IS NOT NULL AND completed_at <= {{now}} - :keep_us
    ORDER BY completed_at LIMIT :limit {{skip_locked}}
)
DELETE FROM job_outbox_events
WHERE id IN (SELECT id FROM expired)
RETURNING CAST(id AS TEXT)
