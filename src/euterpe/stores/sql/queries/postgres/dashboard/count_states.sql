-- How many jobs are in each state, counted up to a limit. The order makes Postgres go by the index: it would read the
-- whole history to find those that came last. Only of what receipts name are the rows read.
SELECT s.state, LEAST(CAST(:limit AS bigint),
    (SELECT COUNT(*) FROM (SELECT 1 FROM inbox_jobs AS j WHERE j.indexed_state = s.state AND s.state <> 'completed'
                           ORDER BY j.seq DESC LIMIT :limit) AS counted)
    + CASE s.state
      WHEN 'scheduled' THEN (SELECT COALESCE(SUM(r.jobs), 0) FROM euterpe_ready AS r)
      WHEN 'completed' THEN (SELECT COUNT(*) FROM (
          SELECT 1 FROM unnest({{everywhere}} - COALESCE({{plain_waiting}}, '{}')) AS x,
          LATERAL (SELECT 1 FROM inbox_jobs AS w WHERE {{within}} ORDER BY w.seq DESC LIMIT :limit) AS j
          LIMIT :limit) AS counted)
      ELSE 0 END
    + CASE WHEN s.state IN ('scheduled', 'completed')
      THEN (SELECT COUNT(*) FROM euterpe_claims AS c, unnest(c.ranges) AS x,
            LATERAL (SELECT 1 FROM inbox_jobs AS w WHERE {{within}} AND w.state || '' = s.state OFFSET 0) AS j)
      ELSE 0 END)
FROM {{dashboard/every_state}} AS s
