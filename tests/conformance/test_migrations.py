"""Migrations: once, in order, from any number of processes at once; a newer schema is refused, a missing one named."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from euterpe.model.errors import SchemaMismatch, StoreUnavailable
from euterpe.stores.sql.engine import Engine
from euterpe.stores.sql.migrations import migrations
from euterpe.stores.sql.postgres.engine import PostgresEngine
from euterpe.stores.sql.sqlite.engine import SqliteEngine
from euterpe.stores.sql.store import SqlStore
from tests.conformance.acts import job, submit, take
from tests.conformance.engines import Opened, Tables
from tests.conformance.needs import TABLES, needs

MakeEngine = Callable[[], Engine]


@pytest.fixture
def make_engine(engine_name: str, tmp_path: Path, request: pytest.FixtureRequest) -> MakeEngine:
    """Engines on one database that nobody has migrated yet."""
    if engine_name.startswith("postgres"):
        url = request.getfixturevalue("bare_postgres_url")
        return lambda: PostgresEngine(url)
    path = str(tmp_path / "fresh.db")
    if engine_name == "libsql":
        from euterpe.stores.sql.sqlite.libsql import LibsqlEngine

        return lambda: LibsqlEngine(path)
    return lambda: SqliteEngine(path)


async def test_migrations_are_applied_once(make_engine: MakeEngine) -> None:
    first = await make_engine().migrate()
    assert first == [m.name for m in migrations(make_engine().family)]
    assert await make_engine().migrate() == []


async def test_many_migrate_at_once_and_one_does_it(make_engine: MakeEngine) -> None:
    done = await asyncio.gather(*(make_engine().migrate() for _ in range(6)))
    assert sorted(map(len, done)) == [0] * 5 + [len(migrations(make_engine().family))]
    engine = make_engine()
    store = SqlStore(engine)
    await store.open()
    try:
        await submit(store)
        assert len(await take(store)) == 1
    finally:
        await store.close()


@needs(TABLES)
async def test_a_schema_of_a_newer_release_is_refused(make_engine: MakeEngine, subject: Opened) -> None:
    newer = max(m.version for m in migrations(subject.store.engine.family)) + 1
    await subject.tables.run(
        f"INSERT INTO euterpe_migrations (version, name, applied_at) VALUES ({newer}, 'from_the_future', 0)"
    )
    try:
        with pytest.raises(SchemaMismatch, match="upgrade euterpe-queue"):
            await subject.store.engine.migrate()
    finally:
        await subject.tables.run(f"DELETE FROM euterpe_migrations WHERE version = {newer}")


async def test_a_database_that_was_never_migrated_is_named_as_such(make_engine: MakeEngine) -> None:
    engine = make_engine()
    store = SqlStore(engine)
    await store.open()
    try:
        with pytest.raises(SchemaMismatch, match="migrate"):
            await store.submit(job())
        with pytest.raises(SchemaMismatch, match="migrate"):
            await take(store)
        with pytest.raises(SchemaMismatch, match="migrate"):
            await store.stats()
    finally:
        await store.close()


async def test_a_store_that_is_not_open_says_so(make_engine: MakeEngine) -> None:
    store = SqlStore(make_engine())
    with pytest.raises(StoreUnavailable, match="not open"):
        await store.submit(job())
    with pytest.raises(StoreUnavailable, match="not open"):
        await store.stats()


async def test_the_tables_and_columns_that_the_contract_names_are_there(tables: Tables) -> None:
    names = set(await tables.names())
    assert {
        "inbox_jobs",
        "job_dependencies",
        "job_outbox_events",
        "idempotency_keys",
        "euterpe_requesters",
        "euterpe_api_keys",
    } <= names
    await tables.run("SELECT job_id, claim_version, attempt, worker_id, outcome, error FROM job_attempts")
    await tables.run(
        "SELECT state, run_at, priority, lease_expires_at, heartbeat_at, claim_version, attempt_count, max_attempts,"
        " worker_id, callback_url, idempotency_key, requester_id FROM inbox_jobs"
    )
    await tables.run("SELECT attempt_count, claim_version, lease_expires_at, run_at FROM job_outbox_events")
    await tables.run("SELECT scope, key, request_hash, response, expires_at FROM idempotency_keys")


async def test_people_can_read_the_jobs_at_a_prompt(store: SqlStore, tables: Tables) -> None:
    await submit(store, payload=b'{"a": 1}')
    await submit(store, payload=b"\xff\x00", payload_format="bytes")
    rows = await tables.run("SELECT payload, created_at FROM euterpe_jobs ORDER BY created_at, payload IS NULL")
    assert rows[0][0] == '{"a": 1}'
    assert rows[1][0] is None
    assert str(rows[0][1]).startswith("2026-01-01 00:00:00")
