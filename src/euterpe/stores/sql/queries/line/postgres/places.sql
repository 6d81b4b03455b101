-- Where to look for completed jobs, which are in no list: below the newest job, and below the first waiting one of each kind and the first of each
-- list, so that a backlog does not hide them.
(SELECT CAST(9223372036854775807 AS bigint) AS place
 UNION
 SELECT f.seq FROM (SELECT * FROM {{line_kinds}} AS k LIMIT 20) AS k,
      LATERAL (SELECT r.seq FROM euterpe_line AS r WHERE {{of_kind}}
               ORDER BY r.rank, r.seq LIMIT 1) AS f
 UNION
 SELECT f.seq FROM (SELECT * FROM {{own_lines}} AS k LIMIT 20) AS k,
      LATERAL (SELECT l.seq FROM euterpe_key_line AS l WHERE {{of_own_line}} ORDER BY l.seq LIMIT 1) AS f
 UNION
 SELECT f.seq FROM {{dashboard/every_state}} AS s,
      LATERAL (SELECT w.seq FROM inbox_jobs AS w WHERE w.listed IS NOT NULL AND (w.listed, w.seq) > (s.state, 0) AND w.listed <= s.state
               ORDER BY w.listed, w.seq LIMIT 1) AS f)
