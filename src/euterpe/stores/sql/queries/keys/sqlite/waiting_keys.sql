-- takes: after, limit
-- returns: name
-- locks: none
-- Keys with jobs that wait, in the order of names from :after on: a look-up a key, not a job.
WITH RECURSIVE names (name, n) AS (
    SELECT :after, 0
    UNION ALL
    SELECT (SELECT j.line FROM inbox_jobs AS j INDEXED BY inbox_jobs_line
            WHERE j.state || '' = 'scheduled' AND j.line > k.name ORDER BY j.line LIMIT 1), k.n + 1
    FROM names AS k WHERE k.name IS NOT NULL AND k.n < :limit
)
SELECT name FROM names WHERE n > 0 AND name IS NOT NULL
