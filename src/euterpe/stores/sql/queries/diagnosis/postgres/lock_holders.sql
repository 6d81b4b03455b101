-- takes: schema, names, pid, everyone, late_s
-- returns: pid, names, min, min_state, min_query, min_2
-- locks: none
-- Sessions that keep others from our tables: those that have locked a whole table against writers, those that the backend
-- :pid waits for, and with :everyone those that any session of ours has waited for longer than :late_s.
WITH ours AS (
    SELECT c.oid, c.relname FROM pg_class AS c
    WHERE c.relnamespace = (SELECT n.oid FROM pg_namespace AS n WHERE n.nspname = COALESCE(CAST(:schema AS text), current_schema()))
      AND c.relkind = 'r' AND c.relname = ANY (CAST(:names AS text[]))
), holders AS (
    SELECT COALESCE(l.pid, 0) AS pid, CAST(o.relname AS text) AS relname
    FROM pg_locks AS l JOIN ours AS o ON o.oid = l.relation
    WHERE l.granted AND l.pid IS DISTINCT FROM pg_backend_pid()
      AND l.mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
    UNION ALL
    SELECT b.pid, NULL FROM unnest(pg_blocking_pids(CAST(:pid AS integer))) AS b (pid)
    UNION ALL
    SELECT b.pid, NULL
    FROM (SELECT DISTINCT w.pid FROM pg_locks AS w
          WHERE CAST(:everyone AS boolean) AND NOT w.granted
            AND w.waitstart < clock_timestamp() - make_interval(secs => CAST(:late_s AS float))
            AND EXISTS (SELECT 1 FROM pg_locks AS t JOIN ours AS o ON o.oid = t.relation WHERE t.pid = w.pid)) AS late,
         unnest(pg_blocking_pids(late.pid)) AS b (pid)
)
SELECT h.pid, string_agg(DISTINCT h.relname, ', '), MIN(COALESCE(NULLIF(a.application_name, ''), CAST(a.usename AS text), '?')), MIN(COALESCE(a.state, '?')),
       MIN(COALESCE(a.query, '')), MIN(CAST(extract(epoch FROM clock_timestamp() - a.xact_start) * 1000000 AS bigint))
FROM holders AS h LEFT JOIN pg_stat_activity AS a ON a.pid = h.pid
GROUP BY h.pid
ORDER BY MIN(a.xact_start) NULLS LAST
LIMIT 5
