-- How many jobs are in this state, counted up to a limit: by the index, and no job is read.
SELECT COUNT(*) FROM (SELECT 1 FROM inbox_jobs WHERE state = :state LIMIT :limit) AS counted
