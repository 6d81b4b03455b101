-- takes: limit, states
-- returns: state, count, is_more
-- locks: none
-- As the shared text. What has completed is what is left of all, where the others could all be counted; else it is what is found of it.
WITH counted AS MATERIALIZED (
    SELECT s.state, CASE s.state
        WHEN 'scheduled' THEN CASE
            WHEN (SELECT SUM(f.jobs) FROM (SELECT r.jobs FROM euterpe_line AS r ORDER BY r.queue, r.type, r.priority, r.rank, r.seq LIMIT 2 * :limit) AS f) >= 2 * :limit THEN :limit
            WHEN (SELECT COUNT(*) FROM (SELECT 1 FROM euterpe_key_line AS l ORDER BY l.key, l.queue, l.type, l.priority, l.seq LIMIT :limit) AS f) >= :limit THEN :limit
            ELSE (SELECT COUNT(*) FROM inbox_jobs AS j WHERE j.seq = ANY (ARRAY({{some_waiting}})) AND j.state = 'scheduled') END
        WHEN 'running' THEN (SELECT COUNT(*) FROM inbox_jobs AS j WHERE {{is_running}})
        ELSE (SELECT COUNT(*) FROM (SELECT 1 FROM inbox_jobs AS j
                                    WHERE j.listed IS NOT NULL AND (j.listed, j.seq) > (s.state, 0) AND j.listed <= s.state
                                    ORDER BY j.listed DESC, j.seq DESC LIMIT :limit) AS f)
        END AS jobs
    FROM {{dashboard/every_state}} AS s WHERE s.state <> 'completed' AND (s.state {{in states text}} OR 'completed' {{in states text}})
), others AS MATERIALIZED (
    SELECT CAST(SUM(c.jobs) AS bigint) AS jobs, bool_and(c.jobs < :limit) AS all_counted FROM counted AS c
), completed AS MATERIALIZED (
    SELECT LEAST(CAST(:limit AS bigint), (SELECT COUNT(*) FROM (SELECT 1 FROM inbox_jobs LIMIT (SELECT o.jobs + :limit FROM others AS o)) AS f) - o.jobs) AS jobs
    FROM others AS o WHERE o.all_counted
    UNION ALL
    SELECT (SELECT COUNT(*) FROM (SELECT 'completed' AS state) AS s, LATERAL ({{newest}}) AS n) FROM others AS o WHERE NOT o.all_counted
)
SELECT c.state, LEAST(CAST(:limit AS bigint), c.jobs), c.jobs >= :limit FROM counted AS c WHERE c.state {{in states text}}
UNION ALL
SELECT 'completed', GREATEST(0, c.jobs), c.jobs >= :limit OR NOT o.all_counted FROM completed AS c, others AS o WHERE 'completed' {{in states text}}
