"""Finished history by the hundred thousand: one INSERT a table, with the columns a real job leaves behind.

Made by the database itself, so that a million rows cost seconds. Their indexes are dropped for the load and made again
from their own definitions, unless a test wants to keep the plans that hang on them.
"""

from __future__ import annotations

from typing import Final

import apsw
import asyncpg

from euterpe.stores.sql.postgres.engine import split_url
from tests.faults.stores import SQLITE, sqlite_path

HOUR_US: Final = 3_600_000_000
PAYLOAD: Final = b'{"report_id": 1234567, "name": "%s"}' % (b"x" * 64)

_JOB_COLUMNS: Final = """
    id, requester_id, queue, type, state, stage, priority, payload, attempt_count, max_attempts, claim_version,
    worker_id, run_at, created_at, updated_at, scheduled_at, started_at, completed_at, expires_at,
    execution_timeout_us, visibility_us, result, transitions, concurrency_key, concurrency_limit, correlation_id,
    fingerprint, failed_at
"""
# Ids grow from row to row, evenly over their whole range: loaded in order, and yet the random id of a new job falls
# anywhere among them.
_JOBS: Final = f"""
INSERT INTO inbox_jobs ({_JOB_COLUMNS})
SELECT ID, 'local', 'default', 'type' || (i % 7),
       CASE i % 50 WHEN 0 THEN 'dead_letter' WHEN 1 THEN 'failed' ELSE 'completed' END, 'claimed', i % 5, PAYLOAD,
       1, 3, 1, 'worker:' || (i % 9), MOMENT, MOMENT, MOMENT + 9000, MOMENT, MOMENT + 1000,
       MOMENT + 9000, SINCE + 200 * {HOUR_US}, 1800000000, 300000000, PAYLOAD, 3,
       CASE WHEN i % 3 = 0 THEN 'tenant' || (i % 100) END, CASE WHEN i % 3 = 0 THEN 5 END,
       'history', CASE WHEN i % 50 < 2 THEN substr('0123456789abcdef012', CAST(i % 7 + 1 AS integer), 12) END,
       CASE WHEN i % 50 < 2 THEN MOMENT + 9000 END
FROM NUMBERS
"""
_SQLITE_JOBS: Final = (
    "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :count)"
    + _JOBS.replace("SELECT ID", "SELECT printf('%08x-0000-4000-8000-%012x', i * 4294967295 / :count, i)")
    .replace("MOMENT", ":since + i * :step")
    .replace("SINCE", ":since")
    .replace("NUMBERS", "n")
    .replace("PAYLOAD", ":payload")
)
_POSTGRES_JOBS: Final = (
    _JOBS.replace(
        "SELECT ID",
        "SELECT CAST(lpad(to_hex(i * 4294967295 / $1), 8, '0') || '000040008000' || lpad(to_hex(i), 12, '0') AS uuid)",
    )
    .replace("MOMENT", "$2::bigint + i * $4::bigint")
    .replace("SINCE", "$2::bigint")
    .replace("NUMBERS", "generate_series(1::bigint, $1::bigint) AS i")
    .replace("PAYLOAD", "$3::bytea")
    .replace("fingerprint, failed_at", "fingerprint, failed_at, listed")
    .replace(
        "FROM generate_series",
        ", CASE i % 50 WHEN 0 THEN 'dead_letter' WHEN 1 THEN 'failed' END FROM generate_series",
    )
)

_ATTEMPTS: Final = """
INSERT INTO euterpe_ended_attempts (job_id, claim_version, attempt, worker_id, started_at, ended_at, outcome, state)
SELECT id, 0, 0, worker_id, started_at, completed_at, 'temporary', 'retrying' FROM inbox_jobs
WHERE correlation_id = 'history'
"""
_THE_REST: Final = (
    """
    INSERT INTO job_outbox_events (id, job_id, requester_id, sequence, type, url, origin, body, state, attempt_count,
        claim_version, run_at, created_at, updated_at, started_at, completed_at)
    SELECT id, id, requester_id, 3, 'job.completed', 'http://receiver.invalid/', 'http://receiver.invalid', payload,
           'completed', 1, 1, run_at, created_at, updated_at, started_at, completed_at FROM inbox_jobs
    WHERE correlation_id = 'history'
    """,
    """
    INSERT INTO euterpe_outbox_deliveries (event_id, claim_version, attempt, worker_id, started_at, ended_at, outcome)
    SELECT id, 1, 1, worker_id, started_at, completed_at, 'delivered' FROM inbox_jobs
    WHERE correlation_id = 'history'
    """,
    f"""
    INSERT INTO idempotency_keys (scope, key, request_hash, job_id, response, created_at, expires_at)
    SELECT 'local', CAST(id AS text), payload, id, payload, created_at, created_at + 24 * {HOUR_US} FROM inbox_jobs
    WHERE correlation_id = 'history'
    """,
    """
    INSERT INTO euterpe_tombstones (job_id, requester_id, state, pruned_at)
    SELECT id, requester_id, state, completed_at FROM inbox_jobs
    WHERE correlation_id = 'history'
    """,
    """
    INSERT INTO job_dependencies (job_id, depends_on)
    SELECT a.id, b.id FROM inbox_jobs AS a JOIN inbox_jobs AS b ON b.seq = a.seq - 1
    WHERE a.correlation_id = 'history' AND b.correlation_id = 'history'
    """,
)


async def add_history(
    url: str,
    count: int,
    now_us: int,
    *,
    every_table: bool = False,
    analyzed: bool = True,
    keep_indexes: bool = False,
    step_us: int = 1,
) -> None:
    """Finished jobs of the last hour and their attempts, once a database; with `every_table` also their
    events, deliveries, keys, edges and as many tombstones. One ended every `step_us`."""
    derived = (_ATTEMPTS, *_THE_REST) if every_table else (_ATTEMPTS,)
    if url.startswith(SQLITE):
        jobs: dict[str, int | bytes] = {"count": count, "since": now_us - HOUR_US, "payload": PAYLOAD, "step": step_us}
        _add_to_sqlite(sqlite_path(url), jobs, derived, analyzed=analyzed)
    else:
        row = (count, now_us - HOUR_US, PAYLOAD, step_us)
        await _add_to_postgres(url, row, derived, analyzed=analyzed, keep_indexes=keep_indexes)


def _add_to_sqlite(path: str, jobs: dict[str, int | bytes], derived: tuple[str, ...], *, analyzed: bool) -> None:
    connection = apsw.Connection(path)
    try:
        connection.execute("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -200000")
        connection.execute("BEGIN IMMEDIATE")
        indexes = list(
            connection.execute(
                "SELECT name, sql FROM sqlite_master"
                " WHERE type = 'index' AND tbl_name = 'inbox_jobs' AND sql IS NOT NULL"
            )
        )
        for name, _ in indexes:
            connection.execute(f"DROP INDEX {name}")
        connection.execute(_SQLITE_JOBS, jobs)
        for sql in derived:
            connection.execute(sql)
        for _, sql in indexes:
            connection.execute(sql)
        connection.execute("COMMIT")
        if analyzed:
            connection.execute("PRAGMA analysis_limit = 1000; ANALYZE")
        connection.execute("PRAGMA journal_mode = WAL")
    finally:
        connection.close()


async def _add_to_postgres(
    url: str, jobs: tuple[int, int, bytes, int], derived: tuple[str, ...], *, analyzed: bool, keep_indexes: bool
) -> None:
    dsn, options = split_url(url)
    connection = await asyncpg.connect(dsn, server_settings={"search_path": options.get("schema", "public")})
    try:
        await connection.execute("SET maintenance_work_mem = '256MB'; SET synchronous_commit = off")
        # Without statistics the server would compare every job with every other to find the one before it.
        await connection.execute("SET enable_nestloop = off")
        async with connection.transaction():
            again = [] if keep_indexes else await _drop_indexes(connection)
            await connection.execute(_POSTGRES_JOBS, *jobs)
            for sql in derived:
                await connection.execute(sql)
            for sql in again:
                await connection.execute(sql)
        await connection.execute("SELECT pg_stat_force_next_flush()")
    finally:
        await connection.close()
    if analyzed:
        await analyze(url)


BACKLOG: Final = """
INSERT INTO inbox_jobs (id, requester_id, queue, type, state, listed, priority, payload, max_attempts, run_at,
    created_at, updated_at, scheduled_at, expires_at, execution_timeout_us, visibility_us, concurrency_key,
    concurrency_limit, pending_dependencies)
SELECT gen_random_uuid(), 'local', queue, type, state, CASE state WHEN 'scheduled' THEN NULL ELSE state END, 2, $3, 3,
       CASE state WHEN 'delayed' THEN $2 + 3600000000 ELSE $2 END, $2, $2, $2, $2 + 86400000000, 1800000000, 300000000,
       key, CASE WHEN key IS NULL THEN NULL ELSE 1 END, CASE state WHEN 'pending' THEN 1 ELSE 0 END
FROM (VALUES ('default', 'paused', 'scheduled', NULL), ('default', 'unknown', 'scheduled', NULL),
             ('default', 'keyed', 'scheduled', 'full'), ('default', 't', 'delayed', NULL),
             ('default', 't', 'pending', NULL)
     ) AS k (queue, type, state, key), generate_series(1::bigint, $1::bigint)
"""
"""So many jobs of each: of a paused type, an unknown one, one full key, one delayed hour, and with dependencies."""
_IN_LINE: Final = """
INSERT INTO euterpe_line (queue, type, priority, seq, jobs, expires_at, since, can_wait, tells)
SELECT queue, type, priority, seq, 1, expires_at, scheduled_at, false, false FROM inbox_jobs
WHERE seq > $1 AND state = 'scheduled' AND concurrency_key IS NULL AND type IN ('paused', 'unknown')
"""
_IN_KEY_LINE: Final = """
INSERT INTO euterpe_key_line (key, queue, type, priority, seq, since, expires_at, most, can_wait, tells)
SELECT requester_id || chr(31) || concurrency_key, queue, type, priority, seq, scheduled_at, expires_at, 1, false, false
FROM inbox_jobs WHERE seq > $1 AND state = 'scheduled' AND concurrency_key = 'full'
"""


async def add_backlog(url: str, count: int, now_us: int) -> None:
    """Jobs that wait and that no worker may take: see `BACKLOG`. On Postgres, each in a run of its own."""
    dsn, options = split_url(url)
    connection = await asyncpg.connect(dsn, server_settings={"search_path": options.get("schema", "public")})
    try:
        await connection.execute("SET synchronous_commit = off")
        async with connection.transaction():
            newest = await connection.fetchval("SELECT COALESCE(MAX(seq), 0) FROM inbox_jobs")
            await connection.execute(BACKLOG, count, now_us, PAYLOAD)
            await connection.execute(_IN_LINE, newest)
            await connection.execute(_IN_KEY_LINE, newest)
            await connection.execute(
                "INSERT INTO euterpe_keys (name, running, in_line) VALUES ('local' || chr(31) || 'full', 1, 0)"
                " ON CONFLICT DO NOTHING"
            )
    finally:
        await connection.close()
    await analyze(url)


async def analyze(url: str) -> None:
    """Fresh statistics on Postgres, for this schema alone."""
    dsn, options = split_url(url)
    connection = await asyncpg.connect(dsn, server_settings={"search_path": options.get("schema", "public")})
    try:
        tables = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()")
        await connection.execute(f"ANALYZE {', '.join(name for (name,) in tables)}")
    finally:
        await connection.close()


async def _drop_indexes(connection: asyncpg.Connection[asyncpg.Record]) -> list[str]:
    """Without the indexes of the two tables that a million rows go to; returns what makes them again."""
    keys = await connection.fetch(
        "SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint"
        " WHERE contype IN ('p', 'u') AND conrelid IN ('inbox_jobs'::regclass, 'euterpe_ended_attempts'::regclass)"
    )
    indexes = await connection.fetch(
        "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = current_schema()"
        " AND tablename = 'inbox_jobs' AND indexname NOT LIKE '%_pkey' AND indexname NOT LIKE '%_id_key'"
    )
    for table, name, _ in keys:
        await connection.execute(f"ALTER TABLE {table} DROP CONSTRAINT {name}")
    for name, _ in indexes:
        await connection.execute(f"DROP INDEX {name}")
    return [
        *(f"ALTER TABLE {table} ADD CONSTRAINT {name} {definition}" for table, name, definition in keys),
        *(definition for _, definition in indexes),
    ]
