-- Jobs that wait for a slot of their concurrency key.
SELECT COUNT(*), MIN(f.since), {{now}}
FROM (SELECT COALESCE(j.scheduled_at, j.created_at) AS since FROM inbox_jobs AS j
      WHERE j.parked AND j.concurrency_key IS NOT NULL LIMIT :limit) AS f
