-- takes: nothing
-- returns: age_us, whose
-- locks: none
-- The oldest transaction of this database besides ours.
SELECT CAST(extract(epoch FROM clock_timestamp() - a.xact_start) * 1000000 AS bigint),
       a.pid || ' of ' || COALESCE(NULLIF(a.application_name, ''), a.usename, '?') || ', ' || COALESCE(a.state, '?')
FROM pg_stat_activity AS a
WHERE a.datname = current_database() AND a.pid <> pg_backend_pid() AND a.xact_start IS NOT NULL
  AND a.backend_type = 'client backend'
ORDER BY a.xact_start LIMIT 1
