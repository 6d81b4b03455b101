"""PgBouncer in transaction mode: every transaction may get another session. All works, only wake-ups are not heard."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
from collections.abc import Iterator

import psycopg
import pytest

from euterpe import Queue
from euterpe.model.errors import InvalidInput
from euterpe.model.submitting.submission import Submission
from euterpe.stores.sql.postgres.engine import PostgresEngine
from euterpe.stores.sql.store import SqlStore
from tests.cancellation.cutting import When, cut_off
from tests.faults.history import check
from tests.faults.recorder import rows
from tests.servers.pgbouncer import PgBouncer, pgbouncer_binary


@pytest.fixture(scope="module")
def pgbouncer(postgres_url: str) -> Iterator[PgBouncer]:
    if pgbouncer_binary() is None and not os.environ.get("CI"):
        pytest.skip("PgBouncer is not installed; .ci/run installs it")
    with PgBouncer(postgres_url) as server:
        yield server


@pytest.fixture
def direct(recorded_postgres_url: str) -> str:
    return recorded_postgres_url


@pytest.fixture(params=["said", "found"])
def through(request: pytest.FixtureRequest, direct: str, pgbouncer: PgBouncer) -> str:
    """The same schema by way of PgBouncer; the URL says that it is one, or not."""
    query = direct.partition("?")[2]
    return f"{pgbouncer.url}?{query}{'&pooler=transaction' if request.param == 'said' else ''}"


async def test_jobs_run_through_it(through: str, direct: str) -> None:
    queue = Queue(through)
    seen: list[int] = []
    enough = asyncio.Event()

    @queue.job("count")
    async def count(n: int) -> int:
        seen.append(n)
        if len(seen) == 60:
            enough.set()
        return n

    async with queue, asyncio.timeout(30), asyncio.TaskGroup() as together:
        together.create_task(queue.work(20, stop=enough, lease="5s", poll="50ms"))
        calls = [count.with_args(n) for n in range(60)]
        await asyncio.gather(*(queue.submit(calls[n], idempotency_key=f"k{n}") for n in range(20)))
        await queue.submit_many(calls[20:50])
        handles = await asyncio.gather(*(queue.submit(call) for call in calls[50:]))
        assert [await handle.result() for handle in handles] == list(range(50, 60))
    assert sorted(seen) == list(range(60))
    check(direct)


async def test_bulk_jobs_work_through_it(through: str, direct: str) -> None:
    """One of them runs while all others end."""
    queue = Queue(through)
    let_go, done, enough = asyncio.Event(), asyncio.Event(), asyncio.Event()
    seen: list[int] = []

    @queue.job("count")
    async def count(n: int) -> None:
        if n == 0:
            await let_go.wait()
        seen.append(n)
        if len(seen) == 59:
            done.set()

    async with queue, asyncio.timeout(60), asyncio.TaskGroup() as together:
        handles = await queue.submit_many([count.with_args(n) for n in range(60)])
        assert rows(direct, "SELECT SUM(jobs) FROM euterpe_line") == [(60,)]
        together.create_task(queue.work(20, stop=enough, lease="5s", poll="50ms"))
        await done.wait()
        assert (await handles[0].refresh()).state == "running"
        let_go.set()
        await handles[0].result()
        enough.set()
    assert sorted(seen) == list(range(60))
    assert rows(direct, "SELECT 1 FROM euterpe_line") == []
    check(direct)


async def test_a_fresh_database_is_migrated_through_it(postgres_url: str, pgbouncer: PgBouncer) -> None:
    schema = f"test_{secrets.token_hex(6)}"
    try:
        engine = PostgresEngine(f"{pgbouncer.url}?schema={schema}")
        assert await engine.migrate()
        assert await engine.migrate() == []
        store = SqlStore(engine)
        await store.open()
        assert (await store.submit(Submission(type="t"))).state == "scheduled"
        await store.close()
    finally:
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute(f"DROP SCHEMA {schema} CASCADE")


async def test_calls_that_are_cut_off_leave_no_transaction_to_the_next_client(through: str, direct: str) -> None:
    store = SqlStore(PostgresEngine(through))
    await store.open()
    acknowledged = []
    for at in range(40):
        was_cut = await cut_off(store.submit(Submission(type="t", idempotency_key=f"k{at}")), at, When.WAITING)
        async with asyncio.timeout(30):
            acknowledged.append((await store.submit(Submission(type="after"))).job_id)
        if not was_cut:
            break
    assert at > 3
    await store.close()
    stored = {job_id for (job_id,) in rows(direct, "SELECT CAST(id AS text) FROM inbox_jobs")}
    assert set(acknowledged) <= stored
    check(direct)


async def test_it_is_said_once_that_wake_ups_are_not_heard(
    direct: str, pgbouncer: PgBouncer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with Queue(f"{pgbouncer.url}?{direct.partition('?')[2]}") as queue:
        await queue.submit("t")
        await queue.stats()
    told = [record for record in caplog.records if "polling" in record.getMessage()]
    assert len(told) == 1
    schema = direct.rpartition("schema=")[2]  # its channel has the schema's name
    assert not rows(direct, f"SELECT 1 FROM pg_stat_activity WHERE query LIKE 'LISTEN%{schema}%'")


def test_a_pooler_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidInput, match="neither 'transaction' nor 'session'"):
        PostgresEngine("postgresql://localhost/x?pooler=statement")
