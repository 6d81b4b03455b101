-- takes: limit
-- returns: count, min_since, now
-- locks: none
-- Jobs that wait for a slot of their concurrency key.
SELECT COUNT(*), MIN(f.since), {{now}}
FROM (SELECT COALESCE(j.scheduled_at, j.created_at) AS since FROM inbox_jobs AS j INDEXED BY inbox_jobs_line
      WHERE j.state || '' = 'scheduled' AND j.line > '' AND {{waits_for_key}} LIMIT :limit) AS f
