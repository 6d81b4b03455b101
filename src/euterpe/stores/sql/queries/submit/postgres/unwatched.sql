-- takes: limit
-- returns: job_id, depends_on
-- locks: skips
-- Jobs whose dependencies nobody watches yet, and which those are, held; see `watching`.
SELECT CAST(u.job_id AS text), u.depends_on FROM euterpe_unwatched_dependencies AS u
ORDER BY u.job_id LIMIT :limit {{skip_locked}}
