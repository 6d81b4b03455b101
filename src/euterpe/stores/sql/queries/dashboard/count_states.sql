-- How many jobs are in each state, counted up to a limit. The order makes Postgres go by the index: it would read the
-- whole history to find those that came last.
SELECT s.state, (SELECT COUNT(*) FROM (SELECT 1 FROM inbox_jobs AS j WHERE j.state = s.state
                                       ORDER BY j.seq DESC LIMIT :limit) AS counted)
FROM {{dashboard/every_state}} AS s
