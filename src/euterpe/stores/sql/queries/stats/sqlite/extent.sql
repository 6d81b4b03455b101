-- takes: nothing
-- returns: first, count, step
-- locks: none
-- The first place of the table, how many places there are, and how many of them make a sample.
SELECT COALESCE((SELECT MIN(seq) FROM inbox_jobs), 0),
       COALESCE((SELECT MAX(seq) FROM inbox_jobs) - (SELECT MIN(seq) FROM inbox_jobs) + 1, 0), 1000
