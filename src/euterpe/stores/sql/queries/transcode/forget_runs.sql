-- takes: work, limit
-- returns: nothing
-- locks: waits
-- Estimates look at the newest runs only.
DELETE FROM euterpe_transcode_runs
WHERE work = :work AND ended_at < (
    SELECT min(newest.ended_at) FROM (
        SELECT r.ended_at FROM euterpe_transcode_runs AS r
        WHERE r.work = :work ORDER BY r.ended_at DESC LIMIT :limit
    ) AS newest
)
