"""A queue, and an application beside it: every test of this folder runs for each library that can be joined."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from euterpe.stores.sql.engine import Engine
from euterpe.stores.sql.postgres.engine import PostgresEngine, split_url
from euterpe.stores.sql.sqlite.engine import SqliteEngine
from euterpe.stores.sql.sqlite.libsql import LibsqlEngine
from euterpe.stores.sql.store import SqlStore
from tests.caller.callers import LIBSQL, ORDERS, POSTGRES, SQLITE, Caller, Place
from tests.migrated import SpareSchemas, session_of, sqlite_template

TABLES = (
    "inbox_jobs", "job_attempts", "job_dependencies", "job_outbox_events", "idempotency_keys",
    "euterpe_outbox_deliveries", "euterpe_tombstones", "orders",
)  # fmt: skip
NAMES = [*POSTGRES, *SQLITE, *LIBSQL]


@dataclass
class Scene:
    """The queue's store, the application, and a look at all tables through the queue's own engine."""

    store: SqlStore
    place: Place
    caller: Caller

    async def rows(self) -> dict[str, list[Any]]:
        """Everything in every table."""
        if self.place.schema:
            with psycopg.connect(self.place.dsn) as connection:
                return {
                    table: sorted(map(str, connection.execute(f"SELECT * FROM {self.place.prefix}{table}".encode())))
                    for table in TABLES
                }
        engine = self.store.engine
        assert isinstance(engine, SqliteEngine | LibsqlEngine)
        session = engine.library.connect(engine.path)
        try:
            return {table: sorted(map(str, session.run(f"SELECT * FROM {table}"))) for table in TABLES}
        finally:
            session.close()

    async def orders(self) -> int:
        return len((await self.rows())["orders"])

    async def jobs(self) -> int:
        return len((await self.rows())["inbox_jobs"])


@pytest.fixture(params=NAMES)
def caller_name(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def place(caller_name: str, tmp_path: Path, templates: Path, request: pytest.FixtureRequest) -> Iterator[Place]:
    """Migrated, with a table of the application's own."""
    if caller_name not in POSTGRES:
        place = Place(file=tmp_path / "jobs.db")
        shutil.copyfile(sqlite_template(templates), place.file)
        engine = engine_of(place, caller_name)
        assert isinstance(engine, SqliteEngine | LibsqlEngine)
        session = engine.library.connect(engine.path)
        session.run(ORDERS.format(schema=""))
        session.close()
        yield place
        return
    server: str = request.getfixturevalue("postgres_url")
    with SpareSchemas(server, session_of(templates), with_orders).lent() as url:
        dsn, options = split_url(url)
        yield Place(dsn=dsn, schema=options["schema"])


async def with_orders(url: str) -> None:
    dsn, options = split_url(url)
    with psycopg.connect(dsn) as connection:
        connection.execute(ORDERS.format(schema=f"{options['schema']}.").encode())


def engine_of(place: Place, caller_name: str) -> Engine:
    if place.schema:
        return PostgresEngine(f"{place.dsn}{'&' if '?' in place.dsn else '?'}schema={place.schema}")
    return LibsqlEngine(str(place.file)) if caller_name in LIBSQL else SqliteEngine(str(place.file))


@pytest.fixture
async def scene(place: Place, caller_name: str) -> AsyncIterator[Scene]:
    store = SqlStore(engine_of(place, caller_name))
    await store.open()
    caller = {**POSTGRES, **SQLITE, **LIBSQL}[caller_name](place)
    await caller.open()
    try:
        yield Scene(store, place, caller)
    finally:
        await caller.close()
        await store.close()
