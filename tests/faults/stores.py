"""A store for a URL, in whichever process asks for it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from euterpe.stores.sql.postgres.engine import PostgresEngine
from euterpe.stores.sql.sqlite.engine import SqliteEngine
from euterpe.stores.sql.store import SqlStore

SQLITE = "sqlite:///"


def sqlite_path(url: str) -> str:
    return url.removeprefix(SQLITE)


def engine_of(url: str, clock: Callable[[], int] | None = None) -> SqliteEngine | PostgresEngine:
    return SqliteEngine(sqlite_path(url), clock) if url.startswith(SQLITE) else PostgresEngine(url, clock)


@asynccontextmanager
async def opened(url: str, clock: Callable[[], int] | None = None) -> AsyncIterator[SqlStore]:
    store = SqlStore(engine_of(url, clock))
    await store.open()
    try:
        yield store
    finally:
        await store.close()
