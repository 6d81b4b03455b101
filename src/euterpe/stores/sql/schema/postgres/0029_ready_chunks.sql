-- Plain jobs of a bulk submit that wait, a row for up to 250 of them, and claims of such jobs, a row a batch: docs/adr/017.
-- A job of a chunk names it by the id of the chunk's first job. It is `parked` as well, so that a worker of an older release,
-- which knows no chunks, does not take it for one that it may claim.
ALTER TABLE inbox_jobs ADD COLUMN chunk uuid;

-- `lo` is the first number that it still has: chunks of submits that ran beside each other are interleaved.
CREATE TABLE euterpe_ready (
    chunk        uuid     NOT NULL PRIMARY KEY,
    queue        text     NOT NULL,
    type         text     NOT NULL,
    priority     smallint NOT NULL,
    lo           bigint   NOT NULL,
    expires_at   bigint   NOT NULL,
    lease_us     bigint   NOT NULL,
    waiting_since bigint  NOT NULL,
    jobs         integer  NOT NULL,
    ranges       int8multirange NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX euterpe_ready_line ON euterpe_ready (queue, priority, lo);

CREATE TABLE euterpe_claims (
    receipt      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    worker_id    text   NOT NULL,
    claimed_at   bigint NOT NULL,
    lease_ttl_us bigint NOT NULL,
    expires_at   bigint NOT NULL,
    ranges       int8multirange NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

-- Chunks are written only while every worker that is alive knows them. One of an older release does not set this.
ALTER TABLE euterpe_workers ADD COLUMN knows_chunks boolean NOT NULL DEFAULT false;

-- What is parked for its concurrency key alone.
DROP INDEX inbox_jobs_parked;
CREATE INDEX inbox_jobs_parked ON inbox_jobs ((requester_id || chr(31) || concurrency_key), priority, seq)
    WHERE parked AND concurrency_key IS NOT NULL;

-- Whoever may work on the jobs may work on these: a claim cannot do without them.
DO $$
DECLARE
    held record;
BEGIN
    FOR held IN
        SELECT a.privilege_type AS what, CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END AS who
        FROM pg_class AS c, aclexplode(c.relacl) AS a
        WHERE c.oid = CAST('inbox_jobs' AS regclass) AND a.grantee <> c.relowner
          AND a.privilege_type IN ('SELECT', 'INSERT', 'UPDATE', 'DELETE')
    LOOP
        EXECUTE format('GRANT %s ON euterpe_ready, euterpe_claims TO %s', held.what, held.who);
    END LOOP;
END $$;
