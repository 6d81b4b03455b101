-- Rights for a role that submits and works, but may not change the schema. Run it as the owner, after `euterpe migrate`:
--   psql "$OWNER_URL" -v role=shop -v schema=public -f deploy/postgres/grants.sql
-- Run it again after every upgrade: a new release may bring new tables.

GRANT USAGE ON SCHEMA :"schema" TO :"role";

SELECT format('GRANT SELECT, INSERT, UPDATE, DELETE ON %I.%I TO %I', schemaname, tablename, :'role')
FROM pg_tables
WHERE schemaname = :'schema'
  AND (tablename IN ('inbox_jobs', 'job_dependencies', 'job_outbox_events', 'idempotency_keys')
       OR (tablename LIKE 'euterpe\_%' AND tablename <> 'euterpe_migrations'))
\gexec

SELECT format('GRANT SELECT ON %I.%I TO %I', schemaname, viewname, :'role')
FROM pg_views
WHERE schemaname = :'schema' AND viewname IN ('job_attempts', 'euterpe_jobs')
\gexec

-- What was migrated may be read, and never written.
GRANT SELECT ON :"schema".euterpe_migrations TO :"role";
