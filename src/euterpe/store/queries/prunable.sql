-- Ended jobs past retention, oldest first.
SELECT CAST(id AS TEXT), requester_id, state FROM inbox_jobs
WHERE state = :state AND completed_at <= {{now}} - :keep_us
ORDER BY seq LIMIT :limit {{skip_locked}}
