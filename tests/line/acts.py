"""What these tests do to a store: submit in bulk, look at the line and at claims, hold rows of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from euterpe.stores.sql.exchange.postgres import AGAIN_AFTER_S
from euterpe.stores.sql.postgres.engine import PostgresEngine
from euterpe.stores.sql.store import SqlStore
from tests.conformance.acts import job
from tests.conformance.engines import PostgresTables


async def bulk(store: SqlStore, count: int, **said: Any) -> list[str]:
    """One submit of so many jobs; their ids."""
    return [submitted.job_id for submitted in await store.submit_many([job(**said)] * count)]


async def runs(tables: PostgresTables) -> list[int]:
    """How many jobs each covers, in order."""
    rows = await tables.run("SELECT jobs FROM euterpe_line ORDER BY priority, rank, seq")
    return [row[0] for row in rows]


async def claims_listed(tables: PostgresTables) -> int:
    ((count,),) = await tables.run("SELECT COUNT(*) FROM euterpe_running")
    return int(count)


@asynccontextmanager
async def held_until_asked_again(url: str, monkeypatch: pytest.MonkeyPatch, *lock: str) -> AsyncIterator[None]:
    """Somebody has locked what this statement locks, until a claim that found nothing pauses."""
    connection = await PostgresEngine(url).connect()
    try:
        transaction = connection.transaction()
        await transaction.start()
        assert await connection.fetch(*lock)
        pause, is_held = asyncio.sleep, True

        async def let_go(seconds: float) -> None:
            nonlocal is_held
            if is_held and seconds in AGAIN_AFTER_S:
                is_held = False
                await transaction.rollback()
            await pause(seconds)

        with monkeypatch.context() as patch:
            patch.setattr(asyncio, "sleep", let_go)
            yield
        assert not is_held, "nobody paused"
    finally:
        await connection.close()


@asynccontextmanager
async def held(url: str, job_id: str) -> AsyncIterator[None]:
    """Somebody has the job's row locked."""
    connection = await PostgresEngine(url).connect()
    try:
        async with connection.transaction():
            await connection.execute("SELECT 1 FROM inbox_jobs WHERE id = $1 FOR UPDATE", job_id)
            yield
    finally:
        await connection.close()


@asynccontextmanager
async def held_run(url: str, priority: int) -> AsyncIterator[None]:
    """Another claim has the runs of this priority locked."""
    connection = await PostgresEngine(url).connect()
    try:
        async with connection.transaction():
            await connection.execute("SELECT 1 FROM euterpe_line WHERE priority = $1 FOR UPDATE", priority)
            yield
    finally:
        await connection.close()
