"""`connection=` as a user writes it, with a worker that runs what was committed."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

import euterpe
from euterpe.queue.queue import core_of
from euterpe.stores.sql.postgres.engine import split_url
from euterpe.stores.sql.sqlite.engine import SqliteEngine
from euterpe.stores.sql.sqlite.python_sqlite import PYTHON
from tests.sql_stores import sql


@asynccontextmanager
async def working(queue: euterpe.Queue) -> AsyncIterator[None]:
    async with queue:
        worker = asyncio.create_task(queue.work(concurrency=4))
        try:
            yield
        finally:
            worker.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await worker


async def test_a_worker_of_the_same_process_runs_what_a_sqlite3_transaction_committed(tmp_path: Path) -> None:
    queue = euterpe.Queue(f"sqlite:///{tmp_path / 'shop.db'}")

    @queue.job("report.render")
    async def render(report_id: int) -> int:
        return report_id * 2

    async with working(queue):
        shop = sqlite3.connect(tmp_path / "shop.db")
        shop.execute("CREATE TABLE orders (name TEXT)")
        shop.execute("INSERT INTO orders VALUES ('lamp')")
        job = await render.submit(report_id=7, connection=shop)  # type: ignore[call-arg]  # no type can say so
        shop.commit()
        assert await job.result(timeout="60s") == 14
        lost = await queue.submit(render.with_args(report_id=8), connection=shop)
        shop.rollback()
        with pytest.raises(euterpe.EuterpeError, match="no job"):
            await queue.get(lost.id)
        other = await render.submit(report_id=9)
        assert await other.result(timeout="60s") == 18
        engine = sql(core_of(queue).store).engine
        assert isinstance(engine, SqliteEngine)
        assert engine.library is PYTHON
        assert shop.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        shop.close()


async def test_a_worker_runs_what_asyncpg_and_sqlalchemy_transactions_committed(fresh_postgres_url: str) -> None:
    queue = euterpe.Queue(fresh_postgres_url)

    @queue.job("report.render")
    async def render(report_id: int) -> int:
        return report_id * 2

    dsn = split_url(fresh_postgres_url)[0]
    async with working(queue):
        connection = await asyncpg.connect(dsn)
        async with connection.transaction():
            first = await render.options(connection=connection).submit(report_id=7)
        await connection.close()
        engine = create_async_engine(dsn.replace("postgresql", "postgresql+asyncpg", 1))
        async with AsyncSession(engine) as session, session.begin():
            await session.execute(sqlalchemy.text("SELECT 1"))
            second = await render.options(connection=session).submit(report_id=8)
        await engine.dispose()
        assert [await first.result(timeout="60s"), await second.result(timeout="60s")] == [14, 16]


def test_code_without_await_joins_by_the_sync_facade(tmp_path: Path) -> None:
    queue = euterpe.Queue(f"sqlite:///{tmp_path / 'shop.db'}")
    with queue.sync as sync:
        sync.stats()  # opened, and migrated: a joined submit does neither
        shop = sqlite3.connect(tmp_path / "shop.db")
        job = sync.submit("report.render", {"report_id": 7}, connection=shop)
        shop.commit()
        assert sync.get(job.id).state == "scheduled"
        shop.close()
