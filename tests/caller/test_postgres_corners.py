"""Corners that only Postgres has: locks that others wait for, cancelled waits, loops, notifications."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import psycopg
import pytest

from euterpe.model.errors import JobNotFound
from euterpe.model.submitting.batch import Unit, drafts_of
from euterpe.model.submitting.submission import Submission
from euterpe.stores.sql.postgres.engine import PostgresEngine, split_url
from euterpe.stores.sql.store import SqlStore


def mail(**fields: Any) -> Unit:
    return Unit(drafts_of([Submission(type="mail", **fields)]))


@pytest.fixture
async def store(fresh_postgres_url: str) -> AsyncIterator[SqlStore]:
    store = SqlStore(PostgresEngine(fresh_postgres_url))
    await store.engine.migrate()
    await store.open()
    yield store
    await store.close()


@pytest.fixture
def dsn(fresh_postgres_url: str) -> str:
    return split_url(fresh_postgres_url)[0]


@pytest.fixture
async def holder(dsn: str) -> AsyncIterator[Any]:
    """Somebody else's connection. Whatever a test does, it lets go at the end, and whoever waits for it goes on."""
    connection = await asyncpg.connect(dsn)
    yield connection
    connection.terminate()


async def until_somebody_waits_for_a_lock(dsn: str, pid: int) -> None:
    """Until the backend is blocked by a lock, as the server itself says."""
    watcher = await asyncpg.connect(dsn)
    try:
        while not await watcher.fetchval("SELECT cardinality(pg_blocking_pids($1)) > 0", pid):  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    finally:
        await watcher.close()


@pytest.mark.timeout(30)
async def test_a_blocking_connection_waits_for_a_key_without_stopping_the_loop(
    store: SqlStore, dsn: str, holder: Any
) -> None:
    """The holder of the key commits on this very loop: a wait that blocked it would never end."""
    transaction = holder.transaction()
    await transaction.start()
    (first,) = await store.submit_unit_on(mail(idempotency_key="k"), holder)
    with psycopg.connect(dsn) as blocking:
        waiting = asyncio.create_task(store.submit_unit_on(mail(idempotency_key="k"), blocking))
        await until_somebody_waits_for_a_lock(dsn, blocking.info.backend_pid)
        await transaction.commit()
        (again,) = await waiting
        blocking.commit()
    assert (again.job_id, again.replayed) == (first.job_id, True)


async def test_a_cancelled_wait_on_a_blocking_connection_gives_it_back_only_when_nobody_uses_it(
    store: SqlStore, dsn: str, holder: Any
) -> None:
    transaction = holder.transaction()
    await transaction.start()
    await store.submit_unit_on(mail(idempotency_key="k"), holder)
    with psycopg.connect(dsn) as blocking:
        unit = mail(idempotency_key="k")
        waiting = asyncio.create_task(store.submit_unit_on(unit, blocking))
        await until_somebody_waits_for_a_lock(dsn, blocking.info.backend_pid)
        waiting.cancel()
        await asyncio.sleep(0)
        assert not waiting.done()
        await transaction.rollback()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        blocking.rollback()
        blocking.commit()
    with pytest.raises(JobNotFound):
        await store.get(unit.drafts[0].id)


async def test_a_cancelled_wait_leaves_an_asynchronous_connection_to_its_own_rollback(
    store: SqlStore, dsn: str, holder: Any
) -> None:
    waiter = await asyncpg.connect(dsn)
    unit = mail(idempotency_key="k")
    async with holder.transaction():
        await store.submit_unit_on(mail(idempotency_key="k"), holder)

        async def submit() -> None:
            async with waiter.transaction():
                await store.submit_unit_on(unit, waiter)

        waiting = asyncio.create_task(submit())
        await until_somebody_waits_for_a_lock(dsn, waiter.get_server_pid())
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert await waiter.fetchval("SELECT 1") == 1
    with pytest.raises(JobNotFound):
        await store.get(unit.drafts[0].id)
    await waiter.close()


async def test_a_submit_works_on_a_loop_other_than_the_stores(store: SqlStore, dsn: str) -> None:
    async def elsewhere() -> str:
        connection = await asyncpg.connect(dsn)
        async with connection.transaction():
            (submitted,) = await store.submit_unit_on(mail(), connection)
        await connection.close()
        return submitted.job_id

    job_ids = await asyncio.gather(*(asyncio.to_thread(lambda: asyncio.run(elsewhere())) for _ in range(4)))
    assert [(await store.get(job_id)).id for job_id in job_ids] == job_ids


async def test_listeners_hear_of_the_job_at_the_commit_and_not_before(store: SqlStore, dsn: str) -> None:
    heard: asyncio.Queue[str] = asyncio.Queue()
    listener = await asyncpg.connect(dsn)
    await listener.add_listener("euterpe_test_joined", lambda *args: heard.put_nowait(args[3]))
    caller = await asyncpg.connect(dsn)
    with contextlib.suppress(ZeroDivisionError):
        async with caller.transaction():
            await store.submit_unit_on(mail(queue="lost"), caller, "euterpe_test_joined")
            raise ZeroDivisionError
    async with caller.transaction():
        await store.submit_unit_on(mail(queue="reports"), caller, "euterpe_test_joined")
        await store.submit_unit_on(mail(queue="reports"), caller, "euterpe_test_joined")
        await store.submit_unit_on(mail(queue="later", delay_us=10**9), caller, "euterpe_test_joined")
        await listener.fetchval("SELECT 1")
        assert heard.empty()
    assert await asyncio.wait_for(heard.get(), 30) == "reports"
    await listener.fetchval("SELECT 1")
    assert heard.empty()
    await caller.close()
    await listener.close()


async def test_the_callers_search_path_does_not_matter(store: SqlStore, dsn: str) -> None:
    caller = await asyncpg.connect(dsn, server_settings={"search_path": "pg_catalog"})
    async with caller.transaction():
        (submitted,) = await store.submit_unit_on(mail(idempotency_key="k"), caller)
    assert (await store.get(submitted.job_id)).state == "scheduled"
    await caller.close()


async def test_the_databases_clock_decides_and_not_the_callers(store: SqlStore, dsn: str) -> None:
    caller = await asyncpg.connect(dsn)
    async with caller.transaction():
        before = await caller.fetchval("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")
        (submitted,) = await store.submit_unit_on(mail(), caller)
        after = await caller.fetchval("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")
    assert before <= (await store.get(submitted.job_id)).created_at <= after
    await caller.close()


async def test_a_broken_connection_says_so_and_stores_nothing(store: SqlStore, dsn: str) -> None:
    caller = await asyncpg.connect(dsn)
    unit = mail(idempotency_key="k")
    transaction = caller.transaction()
    await transaction.start()
    killer = await asyncpg.connect(dsn)
    await killer.fetchval("SELECT pg_terminate_backend($1, 10000)", caller.get_server_pid())
    await killer.close()
    with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, OSError)):
        await store.submit_unit_on(unit, caller)
    with pytest.raises(JobNotFound):
        await store.get(unit.drafts[0].id)
    caller.terminate()
