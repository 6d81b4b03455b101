"""A handler that completes its job in its own transaction: the worker learns from the database what was committed."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import aiosqlite
import asyncpg
import psycopg
import pytest

from euterpe.backends.engines import sqlite_path
from euterpe.model.errors import JobFailed, Unsupported
from euterpe.model.state import State
from euterpe.queue.queue import Queue, core_of
from euterpe.stores.sql.postgres.engine import split_url
from euterpe.worker.context import Context
from tests.worker.conftest import ON_SQLITE_ALONE
from tests.worker.inline import AT_ONCE, working

LEDGER = "CREATE TABLE IF NOT EXISTS ledger (job text NOT NULL)"
INSERT = "INSERT INTO ledger (job) VALUES ('paid')"


class Books:
    """The application's own table beside the queue's, by an asynchronous and by a blocking library."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.dsn, options = split_url(url) if url.startswith("postgres") else ("", {})
        self.schema = options.get("schema", "")
        with self.blocking() as connection:
            connection.execute(LEDGER)

    @contextmanager
    def blocking(self) -> Iterator[Any]:
        """One transaction: committed at the end of the block, rolled back by an error."""
        if self.schema:
            with psycopg.connect(self.dsn, options=f"-c search_path={self.schema}") as connection:
                yield connection
            return
        local = sqlite3.connect(sqlite_path(self.url))
        try:
            with local:
                yield local
        finally:
            local.close()

    @asynccontextmanager
    async def awaited(self) -> AsyncIterator[Any]:
        if self.schema:
            connection = await asyncpg.connect(self.dsn, server_settings={"search_path": self.schema})
            try:
                async with connection.transaction():
                    yield connection
            finally:
                await connection.close()
            return
        async with aiosqlite.connect(sqlite_path(self.url)) as local:
            try:
                yield local
            except BaseException:
                await local.rollback()
                raise
            await local.commit()

    def entries(self) -> int:
        with self.blocking() as connection:
            return len(connection.execute("SELECT job FROM ledger").fetchall())


class Change(Exception):
    """The handler's mind."""


async def test_the_writes_of_a_handler_and_its_completion_are_one(url: str) -> None:
    queue, books = Queue(url), Books(url)
    settled: list[Any] = []

    @queue.job("on_the_loop")
    async def on_the_loop(ctx: Context) -> str:
        async with books.awaited() as connection:
            await connection.execute(INSERT)
            logging.getLogger("books").warning("booked")
            await ctx.complete(connection, {"by": "loop"})
        return "ignored"

    @queue.job("in_a_thread")
    def in_a_thread(ctx: Context) -> str:
        with books.blocking() as connection:
            connection.execute(INSERT)
            ctx.complete(connection, {"by": "thread"})
        return "ignored"

    @queue.job("raises_afterwards", max_attempts=1)
    async def raises_afterwards(ctx: Context) -> None:
        async with books.awaited() as connection:
            await connection.execute(INSERT)
            await ctx.complete(connection, "kept")
        raise Change

    store = core_of(queue).store
    turn = store.exchange

    async def watched(finished: Any, request: Any) -> Any:
        settled.extend(finished)
        return await turn(finished, request)

    store.exchange = watched  # type: ignore[method-assign]
    async with working(queue):
        jobs = [await queue.submit(name) for name in core_of(queue).handlers.types]
        results = [await job.result("20s") for job in jobs]
        kept = [await store.attempt_logs(job.id) for job in jobs]
    assert results == [{"by": "loop"}, {"by": "thread"}, "kept"]
    assert [[line.message for log in logs for line in log.lines] for logs in kept] == [["booked"], [], []]
    assert (books.entries(), settled) == (3, []), "what a handler has committed is not settled again"


async def test_what_was_not_committed_is_settled_the_ordinary_way(url: str) -> None:
    queue, books = Queue(url), Books(url)
    tries: list[int] = []

    @queue.job("raises_inside", backoff=AT_ONCE, max_attempts=2)
    async def raises_inside(ctx: Context) -> None:
        tries.append(ctx.attempt)
        async with books.awaited() as connection:
            await connection.execute(INSERT)
            await ctx.complete(connection, ctx.attempt)
            if ctx.attempt == 1:
                raise Change

    @queue.job("rolls_back_and_returns", backoff=AT_ONCE, max_attempts=2)
    def rolls_back_and_returns(ctx: Context) -> str:
        with books.blocking() as connection:
            connection.execute(INSERT)
            ctx.complete(connection, ctx.attempt)
            if ctx.attempt == 1:
                connection.rollback()
        return "as if it were done"

    @queue.job("does_not_await")
    async def does_not_await(ctx: Context) -> None:
        async with books.awaited() as connection:
            await connection.execute("SELECT 1")
            ctx.complete(connection)

    async with working(queue):
        for name in ("raises_inside", "rolls_back_and_returns"):
            assert await (await queue.submit(name)).result("20s") == 2
        with pytest.raises(JobFailed, match="not awaited"):
            await (await queue.submit("does_not_await")).result("20s")
    assert (books.entries(), tries) == (2, [1, 2])
    async with queue:
        job = (await queue.search(type="rolls_back_and_returns")).jobs[0]
        first, _ = await queue.attempts(job.id)
    assert first.error is not None
    assert first.error.code == "completion_not_committed"


@ON_SQLITE_ALONE
async def test_a_handler_goes_on_after_its_commit_though_its_lease_is_gone_with_it(url: str) -> None:
    queue, books = Queue(url), Books(url)
    beats = asyncio.Event()
    tidied: list[str] = []

    @queue.job("tidies_up")
    async def tidies_up(ctx: Context) -> None:
        async with books.awaited() as connection:
            await ctx.complete(connection, "done")
        await beats.wait()
        tidied.append(ctx.job_id)

    store = core_of(queue).store
    heartbeat = store.heartbeat

    async def watched(*said: Any) -> Any:
        replies = await heartbeat(*said)
        if any(not reply.alive for reply in replies):
            asyncio.get_running_loop().call_soon(beats.set)
        return replies

    store.heartbeat = watched  # type: ignore[method-assign, assignment]
    async with working(queue, lease="5s"):
        job = await queue.submit("tidies_up")
        assert await job.result("20s") == "done"
    assert tidied == [job.id]
    async with queue:
        assert (await queue.get(job.id)).state is State.COMPLETED


@ON_SQLITE_ALONE
async def test_a_child_under_way_must_be_awaited_first(url: str) -> None:
    queue, books = Queue(url), Books(url)

    @queue.job("child", queue="children")
    async def child() -> None: ...

    @queue.job("parent")
    async def parent(ctx: Context) -> None:
        async with books.awaited() as connection:
            await connection.execute(INSERT)  # From here on nobody else can write to the file.
            ctx.spawn("child")
            await ctx.complete(connection)

    async with working(queue):
        with pytest.raises(JobFailed, match=r"await ctx\.spawn"):
            await (await queue.submit("parent", max_attempts=1)).result("20s")
    assert books.entries() == 0


def unable(ctx: Context) -> None:
    ctx.complete(object())


@ON_SQLITE_ALONE
async def test_a_process_handler_is_told_that_it_cannot(url: str) -> None:
    queue = Queue(url)
    queue.job("unable", process=True, max_attempts=1)(unable)
    async with working(queue):
        with pytest.raises(JobFailed, match="process handler cannot complete"):
            await (await queue.submit("unable")).result("20s")


async def test_over_http_there_is_no_transaction_to_join() -> None:
    store = core_of(Queue("http://127.0.0.1:1", token="t")).store
    with pytest.raises(Unsupported, match="transaction"):
        store.complete_on_sync(None, object())  # type: ignore[arg-type]
    with pytest.raises(Unsupported, match="transaction"):
        await store.complete_on(None, object())  # type: ignore[arg-type]
