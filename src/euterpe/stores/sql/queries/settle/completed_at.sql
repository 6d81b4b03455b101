-- takes: ids
-- returns: completed_at
-- locks: none
-- When this job, which was just settled, was completed.
SELECT completed_at FROM inbox_jobs AS j WHERE j.id {{in ids uuid}}
