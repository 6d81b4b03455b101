-- takes: schema, names
-- returns: name, live, dead, autovacuum, is_allowed
-- locks: waits
-- Our tables: rows, dead rows, whether autovacuum may come by, and whether this user may do what it must.
SELECT c.relname, COALESCE(t.n_live_tup, 0), COALESCE(t.n_dead_tup, 0),
       COALESCE('autovacuum_enabled=false' <> ALL (c.reloptions) AND 'autovacuum_enabled=off' <> ALL (c.reloptions), TRUE),
       has_table_privilege(c.oid, 'SELECT') AND has_table_privilege(c.oid, 'INSERT')
       AND has_table_privilege(c.oid, 'UPDATE') AND has_table_privilege(c.oid, 'DELETE')
FROM pg_class AS c
LEFT JOIN pg_stat_user_tables AS t ON t.relid = c.oid
WHERE c.relnamespace = (SELECT n.oid FROM pg_namespace AS n WHERE n.nspname = COALESCE(CAST(:schema AS text), current_schema()))
  AND c.relkind = 'r' AND c.relname = ANY (CAST(:names AS text[]))
ORDER BY c.relname
