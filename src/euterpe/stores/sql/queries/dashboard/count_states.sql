-- takes: limit, states
-- returns: state, jobs, is_more
-- locks: none
-- How many jobs are in each of these states, counted up to a limit, and whether there may be more. The order makes the engine go by the index: it
-- would read the whole history to find those that came last.
SELECT c.state, c.jobs, c.jobs >= :limit
FROM (SELECT s.state, (SELECT COUNT(*) FROM (SELECT 1 FROM inbox_jobs AS j WHERE j.state = s.state
                                             ORDER BY j.seq DESC LIMIT :limit) AS counted) AS jobs
      FROM {{dashboard/every_state}} AS s WHERE s.state {{in states text}}) AS c
