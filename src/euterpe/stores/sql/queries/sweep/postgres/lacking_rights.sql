-- takes: nothing
-- returns: lacking
-- locks: waits
-- What keeps this user from working: a database that takes no writes, and tables that it may not read or change.
SELECT 'the database is read-only'
WHERE current_setting('transaction_read_only') = 'on' AND pg_is_in_recovery()
UNION ALL
SELECT 'no ' || concat_ws(', ',
        CASE WHEN NOT has_table_privilege(c.oid, 'SELECT') THEN 'SELECT' END,
        CASE WHEN NOT has_table_privilege(c.oid, 'INSERT') THEN 'INSERT' END,
        CASE WHEN NOT has_table_privilege(c.oid, 'UPDATE') THEN 'UPDATE' END,
        CASE WHEN NOT has_table_privilege(c.oid, 'DELETE') THEN 'DELETE' END) || ' on ' || c.relname
FROM pg_class AS c
WHERE c.oid IN (
        CAST('inbox_jobs' AS regclass), CAST('job_dependencies' AS regclass),
        CAST('job_outbox_events' AS regclass), CAST('idempotency_keys' AS regclass),
        CAST('euterpe_ended_attempts' AS regclass), CAST('euterpe_outbox_deliveries' AS regclass),
        CAST('euterpe_tombstones' AS regclass), CAST('euterpe_pauses' AS regclass),
        CAST('euterpe_line' AS regclass), CAST('euterpe_running' AS regclass),
        CAST('euterpe_keys' AS regclass), CAST('euterpe_key_line' AS regclass), CAST('euterpe_entered_keys' AS regclass), CAST('euterpe_key_rates' AS regclass))
    AND NOT (has_table_privilege(c.oid, 'SELECT') AND has_table_privilege(c.oid, 'INSERT')
        AND has_table_privilege(c.oid, 'UPDATE') AND has_table_privilege(c.oid, 'DELETE'))
