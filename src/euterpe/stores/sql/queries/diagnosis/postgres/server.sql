-- takes: late_s
-- returns: version, standby, autovacuum, fsync, full_page_writes, max_connections, connections, oldest_xid_age, prepared, max_wal
-- locks: none
-- What the server is, and how it is set up. None of these can be changed by a session.
SELECT CAST(current_setting('server_version_num') AS integer), pg_is_in_recovery(),
       current_setting('autovacuum') = 'on', current_setting('fsync') = 'on', current_setting('full_page_writes') = 'on',
       CAST(current_setting('max_connections') AS integer), (SELECT COUNT(*) FROM pg_stat_activity),
       (SELECT age(d.datfrozenxid) FROM pg_database AS d WHERE d.datname = current_database()),
       (SELECT COUNT(*) FROM pg_prepared_xacts AS p
        WHERE p.database = current_database() AND p.prepared < now() - make_interval(secs => CAST(:late_s AS float))),
       pg_size_bytes(current_setting('max_wal_size'))
