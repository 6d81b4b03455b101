-- takes: work, job_id, media_ms, run_ms
-- returns: nothing
-- locks: waits
-- A run that ended well, for estimates of the next ones.
INSERT INTO euterpe_transcode_runs (work, ended_at, job_id, media_ms, run_ms)
VALUES (:work, {{now}}, :job_id, :media_ms, :run_ms)
ON CONFLICT (work, ended_at, job_id) DO NOTHING
