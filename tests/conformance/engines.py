"""The engines under test: for each, how to open an empty store on a frozen clock, and how to look at its tables.

To add one, write an opener and put it into `ENGINES`; every behaviour of this folder then runs against it. Engines are
never skipped: what an engine cannot do is a capability that the test asks for (`needs.py`).
"""

from __future__ import annotations

import asyncio
import importlib.util
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Protocol, cast

import asyncpg

from euterpe.stores.redis_lists.store import RedisListStore
from euterpe.stores.sql.engine import Engine
from euterpe.stores.sql.postgres.engine import PostgresEngine
from euterpe.stores.sql.sqlite.engine import SqliteEngine
from euterpe.stores.sql.sqlite.writer import GroupCommitEngine
from euterpe.stores.sql.store import SqlStore
from tests.conformance.clock import FrozenClock
from tests.conformance.over_http import served
from tests.migrated import empty_schema

SEED = 20_260_101


class Tables(Protocol):
    """A look at the rows themselves, past the store."""

    async def run(self, sql: str) -> list[tuple[Any, ...]]: ...

    async def names(self) -> list[str]: ...


async def row_counts(tables: Tables) -> dict[str, int]:
    """How many rows every table has, and the view of attempts: equal before and after means that nothing was stored.
    `euterpe_running` is an index, and keeps a claim until the next turn deletes it."""
    beside = {"euterpe_migrations", "euterpe_running"}
    names = [*(name for name in await tables.names() if name not in beside), "job_attempts"]
    union = " UNION ALL ".join(f"SELECT '{name}', COUNT(*) FROM {name}" for name in names)
    return dict(sorted((row[0], row[1]) for row in await tables.run(union)))


@dataclass(frozen=True, slots=True)
class Place:
    """Where an engine may put its data: a migrated template file, a folder, a migrated Postgres schema."""

    sqlite_template: Path
    folder: Path
    postgres_url: str
    redis_url: str = ""


@dataclass(frozen=True, slots=True)
class Opened:
    """A store that is open and empty; `another` opens a second one on the same data, as another process would."""

    store: SqlStore
    tables: Tables
    another: Callable[[], AbstractAsyncContextManager[SqlStore]]


Opener = Callable[[Place, FrozenClock], AbstractAsyncContextManager[Opened]]


@asynccontextmanager
async def opened(engine: Engine, payload_limit: int | None = None) -> AsyncIterator[SqlStore]:
    options = {} if payload_limit is None else {"payload_limit": payload_limit}
    store = SqlStore(engine, rng=Random(SEED), **options)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


class SqliteTables:
    """Through the engine's own library: two SQLite libraries in one process may not open the same file."""

    def __init__(self, engine: GroupCommitEngine) -> None:
        self._engine = engine

    async def run(self, sql: str) -> list[tuple[Any, ...]]:
        return await asyncio.to_thread(self._run, sql)

    def _run(self, sql: str) -> list[tuple[Any, ...]]:
        session = self._engine.library.connect(self._engine.path)
        try:
            return [tuple(row) for row in session.run(sql)]
        finally:
            session.close()

    async def names(self) -> list[str]:
        rows = await self.run("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
        return sorted(row[0] for row in rows)


class PostgresTables:
    """Connects at the first look: most tests never look."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection: asyncpg.Connection[asyncpg.Record] | None = None

    async def run(self, sql: str) -> list[tuple[Any, ...]]:
        self._connection = self._connection or await PostgresEngine(self._url).connect()
        return [tuple(row) for row in await self._connection.fetch(sql)]

    async def names(self) -> list[str]:
        rows = await self.run("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()")
        return sorted(row[0] for row in rows)

    async def empty(self) -> None:
        await asyncio.to_thread(empty_schema, self._url)

    async def close(self) -> None:
        if self._connection is not None:
            await self._connection.close()


@asynccontextmanager
async def open_sqlite(place: Place, clock: FrozenClock) -> AsyncIterator[Opened]:
    path = place.folder / "jobs.db"
    await asyncio.to_thread(shutil.copyfile, place.sqlite_template, path)
    engine = SqliteEngine(str(path), clock)
    async with opened(engine) as store:
        yield Opened(store, SqliteTables(engine), lambda: opened(SqliteEngine(str(path), clock)))


@asynccontextmanager
async def open_postgres(place: Place, clock: FrozenClock) -> AsyncIterator[Opened]:
    engine = PostgresEngine(place.postgres_url, clock)
    async with AsyncExitStack() as stack:
        tables = PostgresTables(place.postgres_url)
        stack.push_async_callback(tables.close)
        await tables.empty()
        store = await stack.enter_async_context(opened(engine))
        yield Opened(store, tables, lambda: opened(PostgresEngine(place.postgres_url, clock)))


@asynccontextmanager
async def open_libsql(place: Place, clock: FrozenClock) -> AsyncIterator[Opened]:
    from euterpe.stores.sql.sqlite.libsql import LibsqlEngine

    path = place.folder / "libsql.db"
    await asyncio.to_thread(shutil.copyfile, place.sqlite_template, path)
    engine = LibsqlEngine(f"libsql:///{path}", clock)
    async with opened(engine) as store:
        yield Opened(store, SqliteTables(engine), lambda: opened(LibsqlEngine(f"libsql:///{path}", clock)))


def over_http(open_behind: Opener) -> Opener:
    """A control plane on such a store. Another process has a control plane of its own on the same data."""

    @asynccontextmanager
    async def open_http(place: Place, clock: FrozenClock) -> AsyncIterator[Opened]:
        @asynccontextmanager
        async def another() -> AsyncIterator[SqlStore]:
            async with behind.another() as store, served(store) as client:
                yield client

        async with open_behind(place, clock) as behind, served(behind.store) as client:
            yield Opened(client, behind.tables, another)

    return open_http


class NoTables:
    """Redis has none; a test that looks at rows is for the other engines."""

    async def run(self, sql: str) -> list[tuple[Any, ...]]:
        raise AssertionError(f"no engine with tables: {sql}")

    async def names(self) -> list[str]:
        raise AssertionError("no engine with tables")


@asynccontextmanager
async def open_redis_lists(place: Place, clock: FrozenClock) -> AsyncIterator[Opened]:
    @asynccontextmanager
    async def another() -> AsyncIterator[SqlStore]:
        store = RedisListStore(place.redis_url, clock=clock, rng=Random(SEED))
        await store.open()
        try:
            yield cast(SqlStore, store)
        finally:
            await store.close()

    async with another() as store:
        yield Opened(store, NoTables(), another)


ENGINES: dict[str, Opener] = {
    "sqlite": open_sqlite,
    "postgres": open_postgres,
    "http over sqlite": over_http(open_sqlite),
    "http over postgres": over_http(open_postgres),
    "redis lists": open_redis_lists,
}

if importlib.util.find_spec("euterpe.stores.sql.sqlite.libsql") is not None:
    ENGINES["libsql"] = open_libsql
