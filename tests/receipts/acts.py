"""What these tests do to a store: submit in bulk, and look at chunks and receipts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from euterpe.stores.sql.jobs.claim import CHUNK_WAITS_S
from euterpe.stores.sql.postgres.engine import PostgresEngine
from euterpe.stores.sql.store import SqlStore
from tests.conformance.acts import job
from tests.conformance.engines import PostgresTables


async def bulk(store: SqlStore, count: int, **said: Any) -> list[str]:
    """One submit of so many jobs; their ids."""
    return [submitted.job_id for submitted in await store.submit_many([job(**said)] * count)]


async def chunks(tables: PostgresTables) -> list[int]:
    """How many jobs each has, in order."""
    rows = await tables.run("SELECT jobs FROM euterpe_ready ORDER BY priority, lo")
    return [row[0] for row in rows]


async def receipts(tables: PostgresTables) -> int:
    ((count,),) = await tables.run("SELECT COUNT(*) FROM euterpe_claims")
    return int(count)


@asynccontextmanager
async def chunks_held_until_asked_twice(url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    """Somebody has all chunks locked, until a claim that found none pauses."""
    connection = await PostgresEngine(url).connect()
    try:
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute("SELECT 1 FROM euterpe_ready FOR UPDATE")
        pause, is_held = asyncio.sleep, True

        async def let_go(seconds: float) -> None:
            nonlocal is_held
            if is_held and seconds in CHUNK_WAITS_S:
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
