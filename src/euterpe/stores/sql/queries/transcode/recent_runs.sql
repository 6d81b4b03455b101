-- takes: work, limit
-- returns: media_ms, run_ms
-- locks: none
-- The newest runs of a kind of work: length of the source, length of the run.
SELECT r.media_ms, r.run_ms FROM euterpe_transcode_runs AS r
WHERE r.work = :work ORDER BY r.ended_at DESC LIMIT :limit
