"""The database goes away: the worker waits, keeps what is over, settles it when the database is back, and says so."""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from euterpe.model.state import State
from euterpe.queue.queue import Queue
from euterpe.worker.context import Context
from tests.servers import PostgresServer
from tests.worker.floor import Floor, in_state, until
from tests.worker.inline import working
from tests.worker.proxy import proxied


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    """A Postgres of this test's own, to be stopped and started."""
    with PostgresServer() as server:
        yield server


@pytest.fixture
def url(server: PostgresServer) -> str:
    return server.url


async def test_what_ends_while_the_database_is_away_is_kept_and_settled_when_it_is_back(
    server: PostgresServer, floor: Floor
) -> None:
    async with Queue(server.url) as client:
        worker = await floor.start().working()
        jobs = [await client.submit("gated") for _ in range(3)]
        await floor.noted("begun", count=3)
    await asyncio.to_thread(server.stop, immediate=True)
    floor.open_gate()
    await floor.noted("done", count=3)
    (away,) = await until(lambda: worker.said("database unavailable: the worker"), "the worker says that it is away")
    assert away["level"] == "warning"
    await asyncio.to_thread(server.start)
    async with Queue(server.url) as client:
        ended = [await in_state(client, job, State.COMPLETED) for job in jobs]
        (back,) = await until(
            lambda: worker.said("database available again: the worker"), "the worker says that it is back"
        )
        print(back["msg"])
        assert [job.attempt_count for job in ended] == [1, 1, 1]
        assert len(floor.journal("begun")) == 3
        again = await client.submit("quick", {"value": 1})
        assert (await in_state(client, again, State.COMPLETED)).attempt_count == 1


async def test_cut_connections_in_the_middle_of_a_drain_lose_and_repeat_nothing_that_was_settled(
    server: PostgresServer, floor: Floor
) -> None:
    """A claim whose commit was cut may have happened: its jobs come back when their lease is over."""
    count = 400
    async with Queue(server.url) as client:
        await client.submit_many([("quick", {"value": i}) for i in range(count)])
        workers = [floor.start(concurrency=5, lease="2s") for _ in range(2)]
        cut = 0
        for done in (20, 100, 200):
            await floor.noted("ran", count=done)
            cut += await asyncio.to_thread(server.terminate_backends)

        async def all_done() -> bool:
            return (await client.stats()).by_state == {"completed": count}

        await until(all_done, "all jobs are completed")
        assert cut > 0
        print(f"{cut} connections cut, {len(floor.journal('ran')) - count} runs repeated of {count}")
        for worker in workers:
            worker.signal(signal.SIGTERM)
            assert await worker.ended() == 0
        page = await client.search(state="completed", limit=1000)
        for job in page.jobs:
            outcomes = [attempt.outcome for attempt in await client.attempts(job.id)]
            assert outcomes.count("completed") == 1
            assert set(outcomes) <= {"completed", "system"}


async def test_a_worker_told_to_stop_while_the_database_is_away_ends_and_its_jobs_run_again(
    server: PostgresServer, floor: Floor
) -> None:
    async with Queue(server.url) as client:
        worker = await floor.start(grace="0s", lease="2s").working()
        job = await client.submit("gated")
        await floor.noted("begun", job)
    await asyncio.to_thread(server.stop, immediate=True)
    worker.signal(signal.SIGTERM)
    assert await worker.ended() == 0
    assert worker.said("could not be settled")
    await asyncio.to_thread(server.start)
    floor.open_gate()
    await floor.start(lease="2s").working()
    async with Queue(server.url) as client:
        assert (await in_state(client, job, State.COMPLETED)).attempt_count == 2


async def test_a_handler_that_reports_while_the_database_is_away_waits_and_does_not_fail(
    server: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with proxied(server.url) as (proxy, through):
        queue = Queue(through)
        cut, told = asyncio.Event(), asyncio.Event()

        @queue.job("reports")
        async def reports(ctx: Context) -> int:
            await ctx.progress(10)
            proxy.refuse()
            cut.set()
            await ctx.progress(50, "half")
            told.set()
            return ctx.attempt

        async with Queue(server.url) as client, working(queue):
            job = await client.submit("reports")
            await cut.wait()
            await until(lambda: "database unavailable" in caplog.text, "the worker notices")
            assert not told.is_set()
            proxy.restore()
            ended = await in_state(client, job, State.COMPLETED)
            assert (ended.attempt_count, ended.progress, ended.result) == (1, 50.0, b"1")


async def test_a_network_that_falls_silent_is_noticed_and_left_behind(
    server: PostgresServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """No reset, no answer: only a deadline tells. The lost link stays lost; new ones work."""
    monkeypatch.setattr("euterpe.stores.sql.postgres.engine.ANSWER_TIMEOUT_S", 1.0)
    caplog.set_level(logging.WARNING)
    async with proxied(server.url) as (proxy, through):
        queue = Queue(through)
        running, over = asyncio.Event(), asyncio.Event()

        @queue.job("long")
        async def long() -> str:
            running.set()
            await over.wait()
            return "kept"

        async with Queue(server.url) as client, working(queue):
            job = await client.submit("long")
            await running.wait()
            proxy.swallow()
            over.set()
            started = time.monotonic()
            await until(lambda: "database unavailable" in caplog.text, "the worker notices")
            proxy.restore()
            ended = await in_state(client, job, State.COMPLETED)
            print(f"settled {time.monotonic() - started:.1f} s after the network fell silent (deadline 1 s)")
            assert (ended.attempt_count, ended.result) == (1, b'"kept"')


async def test_progress_is_not_lost_when_the_listener_is_cut(server: PostgresServer, tmp_path: Path) -> None:
    """LISTEN dies with its connection; the worker listens again, and is woken by NOTIFY as before."""
    queue = Queue(server.url)

    @queue.job("echo")
    async def echo(value: int) -> int:
        return value

    async with Queue(server.url) as client, working(queue, poll="10m"):
        assert await (await client.submit("echo", {"value": 1})).result("20s") == 1
        await asyncio.to_thread(server.terminate_backends)
        listening = "SELECT 1 FROM pg_stat_activity WHERE query LIKE 'LISTEN%'"

        async def listens_again() -> bool:
            return await asyncio.to_thread(_finds, server.url, listening)

        await until(listens_again, "the worker listens again")
        assert await (await client.submit("echo", {"value": 2})).result("20s") == 2


def _finds(url: str, query: str) -> bool:
    import psycopg

    with psycopg.connect(url) as connection:
        return bool(connection.execute(query).fetchall())


@pytest.mark.parametrize("bytes_at_once", [3_000_000, 500_000])
async def test_large_results_are_written_over_a_network_that_carries_a_few_at_a_time(
    server: PostgresServer, bytes_at_once: int
) -> None:
    """All end at once. As one batch they would be sent, cut off and sent again for ever."""
    jobs, size = 24, 400_000
    async with proxied(server.url) as (proxy, through):
        queue, gate = Queue(through), asyncio.Event()
        begun = asyncio.Semaphore(0)

        @queue.job("large")
        async def large(number: int) -> str:
            begun.release()
            await gate.wait()
            return f"{number}" + "x" * size

        async with Queue(server.url) as client, working(queue, concurrency=jobs):
            submitted = await client.submit_many([("large", {"number": i}) for i in range(jobs)])
            for _ in range(jobs):
                await begun.acquire()
            proxy.narrow(bytes_at_once)
            gate.set()

            async def all_written() -> bool:
                return (await client.stats()).by_state == {"completed": jobs}

            await until(all_written, "all results are written")
            assert proxy.cut > 0, "the first batch was too large"
            ended = [await in_state(client, job, State.COMPLETED) for job in submitted]
            assert [(job.attempt_count, len(job.result or b"")) for job in ended] == [
                (1, size + 2 + len(str(i))) for i in range(jobs)
            ]
