-- Delivered or dead events past retention; their delivery log goes with them.
DELETE FROM job_outbox_events
WHERE id IN (SELECT id FROM job_outbox_events
             WHERE state = :state AND completed_at <= {{now}} - :keep_us ORDER BY seq LIMIT :limit)
RETURNING CAST(id AS TEXT)
