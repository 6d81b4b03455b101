-- How many jobs are in this state, counted up to a limit. The order makes Postgres go by the index: it would read the
-- whole history to find those that came last.
SELECT COUNT(*) FROM (SELECT 1 FROM inbox_jobs WHERE state = :state ORDER BY seq DESC LIMIT :limit) AS counted
