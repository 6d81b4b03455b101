"""Finished history by the hundred thousand: one INSERT a table, with the columns a real job leaves behind.

Made by the database itself, so that a million rows cost seconds. Indexes are dropped for the load and made again from
their own definitions, which leaves them as a real history would after a REINDEX.
"""

from __future__ import annotations

import time
from typing import Final

import apsw
import asyncpg

from euterpe.store.postgres import split_url
from tests.faults.stores import SQLITE, sqlite_path

DAY_US: Final = 86_400_000_000

_JOB_COLUMNS: Final = """
    id, requester_id, queue, type, state, stage, priority, payload, attempt_count, max_attempts, claim_version,
    worker_id, run_at, created_at, updated_at, scheduled_at, started_at, completed_at, expires_at,
    execution_timeout_us, visibility_us, result, transitions
"""
_ATTEMPT_COLUMNS: Final = "job_id, claim_version, attempt, worker_id, started_at, ended_at, outcome, state"

# Ids grow from row to row, evenly over their whole range: loaded in order, and yet a new job's random id falls
# anywhere among them.
_SQLITE_JOBS: Final = f"""
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :count)
INSERT INTO inbox_jobs ({_JOB_COLUMNS})
SELECT printf('%08x-0000-4000-8000-%012x', i * 4294967295 / :count, i), 'local', 'default', 'type' || i % 7,
       CASE i % 50 WHEN 0 THEN 'dead_letter' WHEN 1 THEN 'failed' ELSE 'completed' END, 'claimed', i % 5,
       :payload, 1, 3, 1, 'worker:' || i % 9, :since + i, :since + i, :since + i + 9000, :since + i, :since + i + 1000,
       :since + i + 9000, :since + 7 * {DAY_US}, 1800000000, 300000000, x'74727565', 3
FROM n
"""
_SQLITE_ATTEMPTS: Final = f"""
INSERT INTO job_attempts ({_ATTEMPT_COLUMNS})
SELECT id, 1, 1, worker_id, started_at, completed_at, 'completed', state FROM inbox_jobs WHERE seq > :after ORDER BY seq
"""
_POSTGRES_JOBS: Final = f"""
INSERT INTO inbox_jobs ({_JOB_COLUMNS})
SELECT CAST(lpad(to_hex(i * 4294967295 / $1), 8, '0') || '00004000800' || lpad(to_hex(i), 13, '0') AS uuid), 'local',
       'default', 'type' || i % 7,
       CASE i % 50 WHEN 0 THEN 'dead_letter' WHEN 1 THEN 'failed' ELSE 'completed' END, 'claimed', i % 5,
       $3::bytea, 1, 3, 1, 'worker:' || i % 9, $2 + i, $2 + i, $2 + i + 9000, $2 + i, $2 + i + 1000, $2 + i + 9000,
       $2 + 7 * {DAY_US}, 1800000000, 300000000, '\\x74727565', 3
FROM generate_series(1::bigint, $1::bigint) AS i
"""
_POSTGRES_ATTEMPTS: Final = f"""
INSERT INTO job_attempts ({_ATTEMPT_COLUMNS})
SELECT id, 1, 1, worker_id, started_at, completed_at, 'completed', state FROM inbox_jobs WHERE seq > $1
"""
_PAYLOAD: Final = b'{"report_id": 1234567, "name": "%s"}' % (b"x" * 64)


async def add_history(url: str, count: int, now_us: int, *, analyze: bool = True) -> None:
    """Finished jobs and their attempts, all of the last hour."""
    since_us = now_us - 3_600_000_000
    if url.startswith(SQLITE):
        _add_to_sqlite(sqlite_path(url), count, since_us, analyze=analyze)
    else:
        await _add_to_postgres(url, count, since_us, analyze=analyze)


def _add_to_sqlite(path: str, count: int, since_us: int, *, analyze: bool) -> None:
    connection = apsw.Connection(path)
    try:
        connection.execute("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -200000")
        connection.execute("BEGIN IMMEDIATE")
        t=time.time()
        indexes = list(
            connection.execute(
                "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND tbl_name = 'inbox_jobs' AND sql IS NOT NULL"
            )
        )
        for name, _ in indexes:
            connection.execute(f"DROP INDEX {name}")
        [(after,)] = connection.execute("SELECT COALESCE(MAX(seq), 0) FROM inbox_jobs")
        connection.execute(_SQLITE_JOBS, {"count": count, "since": since_us, "payload": _PAYLOAD})
        print("jobs",time.time()-t)
        connection.execute(_SQLITE_ATTEMPTS, {"after": after})
        print("attempts",time.time()-t)
        for _, sql in indexes:
            connection.execute(sql)
        connection.execute("COMMIT")
        if analyze:
            connection.execute("PRAGMA analysis_limit = 1000; ANALYZE")
        connection.execute("PRAGMA journal_mode = WAL")
    finally:
        connection.close()


async def _add_to_postgres(url: str, count: int, since_us: int, *, analyze: bool) -> None:
    dsn, options = split_url(url)
    connection = await asyncpg.connect(dsn, server_settings={"search_path": options.get("schema", "public")})
    try:
        await connection.execute("SET maintenance_work_mem = '256MB'; SET synchronous_commit = off")
        async with connection.transaction():
            indexes = await connection.fetch(
                "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = current_schema()"
                " AND tablename = 'inbox_jobs' AND indexname NOT LIKE '%_pkey'"
            )
            primary = await connection.fetch(
                "SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint"
                " WHERE contype = 'p' AND conrelid IN ('inbox_jobs'::regclass, 'job_attempts'::regclass)"
            )
            for name, _ in indexes:
                await connection.execute(f"DROP INDEX {name}")
            t=time.time()
            for table, name, _ in primary:
                await connection.execute(f"ALTER TABLE {table} DROP CONSTRAINT {name}")
            after = await connection.fetchval("SELECT COALESCE(MAX(seq), 0) FROM inbox_jobs")
            await connection.execute(_POSTGRES_JOBS, count, since_us, _PAYLOAD)
            print("jobs",time.time()-t)
            await connection.execute(_POSTGRES_ATTEMPTS, after)
            print("attempts",time.time()-t)
            for table, name, definition in primary:
                await connection.execute(f"ALTER TABLE {table} ADD CONSTRAINT {name} {definition}")
            print("pk",time.time()-t)
            for _, definition in indexes:
                await connection.execute(definition)
            print("ix",time.time()-t)
        if analyze:
            await connection.execute("ANALYZE inbox_jobs, job_attempts")
    finally:
        await connection.close()
