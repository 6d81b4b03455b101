"""What a worker claimed ahead begins in order, goes back uncharged, and is not charged when the worker dies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest

from euterpe.model.failures.circuit_breaker import BreakerPolicy
from euterpe.model.job import JobRow
from euterpe.model.state import State
from euterpe.queue.handle import JobHandle
from euterpe.queue.queue import Queue, core_of
from euterpe.runtime.clocks import awake_or_not_s
from euterpe.worker.loop import WorkerLoop
from euterpe.worker.settings import WorkerSettings
from tests.faults import proxy as faults
from tests.worker.conftest import ON_SQLITE_ALONE
from tests.worker.floor import Floor, in_state
from tests.worker.pacing import Eager

seen_by: ContextVar[int | None] = ContextVar("seen_by", default=None)


class Shop:
    """A queue whose jobs each wait for a permit; a worker with one slot that claims ahead."""

    def __init__(self, url: str) -> None:
        self.queue = Queue(url)
        self.permits = asyncio.Semaphore(0)
        self.begun: list[int] = []
        self.pace = Eager(4, "held")
        self.inherited: list[int | None] = []
        self.tasks: list[asyncio.Task[Any] | None] = []
        self.is_broken = False

        @self.queue.job("held")
        async def held(n: int) -> None:
            self.begun.append(n)
            self.inherited.append(seen_by.get())
            seen_by.set(n)
            self.tasks.append(asyncio.current_task())
            await self.permits.acquire()
            if self.is_broken:
                raise ConnectionError("what it needs is away")

    async def submit(self, n: int, priority: int = 2) -> JobHandle[Any]:
        return await self.queue.submit("held", {"n": n}, priority=priority)

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[WorkerLoop]:
        core = core_of(self.queue)
        settings = WorkerSettings(
            worker_id="w:1",
            concurrency=1,
            lease_ttl_us=1_000_000,
            poll_s=0.05,
            breaker=BreakerPolicy(min_samples=2),
        )
        async with self.queue:
            worker = WorkerLoop(core.store, core.handlers, settings, wakeups=core.wakeups, pace=self.pace)
            running = asyncio.create_task(worker.run())
            try:
                yield worker
            finally:
                worker.stop_at_once()
                await running


async def rows_of(queue: Queue, jobs: list[JobHandle[Any]]) -> list[JobRow]:
    return [await core_of(queue).get(job.id) for job in jobs]


async def all_in(queue: Queue, jobs: list[JobHandle[Any]], state: State) -> list[JobRow]:
    for job in jobs:
        await in_state(queue, job, state)
    return await rows_of(queue, jobs)


@pytest.fixture
def shop(url: str, monkeypatch: pytest.MonkeyPatch) -> Shop:
    monkeypatch.setattr("euterpe.worker.attempts.PATIENCE_S", 3600.0)
    return Shop(url)


async def test_what_begins_when_another_ends_has_a_task_and_a_context_of_its_own(shop: Shop) -> None:
    async with shop.at_work():
        jobs = [await shop.submit(n) for n in range(4)]
        await all_in(shop.queue, jobs, State.RUNNING)
        for _ in jobs:
            shop.permits.release()
        await all_in(shop.queue, jobs, State.COMPLETED)
        assert shop.inherited == [None] * 4
        assert len(set(shop.tasks)) == 4
        assert {task.get_name() for task in shop.tasks if task is not None} == {"held"}


async def test_an_urgent_job_begins_next_and_a_cancelled_one_never(shop: Shop) -> None:
    async with shop.at_work() as worker:
        jobs = [await shop.submit(n) for n in range(5)]
        await all_in(shop.queue, jobs, State.RUNNING)
        assert shop.begun == [0]
        assert len(worker.running) == 1, "what waits does not run"
        await shop.queue.cancel(jobs[2].id)
        await in_state(shop.queue, jobs[2], State.CANCELLED)
        urgent = await shop.submit(99, priority=0)
        await in_state(shop.queue, urgent, State.RUNNING)
        for _ in range(5):
            shop.permits.release()
        await all_in(shop.queue, [urgent, jobs[1], *jobs[3:]], State.COMPLETED)
        assert shop.begun == [0, 99, 1, 3, 4]


async def test_what_waits_goes_back_uncharged_at_the_order_to_stop(shop: Shop) -> None:
    async with shop.at_work() as worker:
        jobs = [await shop.submit(n) for n in range(5)]
        await all_in(shop.queue, jobs, State.RUNNING)
        worker.stop()
        await all_in(shop.queue, jobs[1:], State.SCHEDULED)
        rows = await rows_of(shop.queue, jobs)
        assert [row.attempt_count for row in rows] == [1, 0, 0, 0, 0], "what never began is not charged"
        shop.permits.release()
        await in_state(shop.queue, jobs[0], State.COMPLETED)
    assert shop.begun == [0]


@ON_SQLITE_ALONE
async def test_what_waits_too_long_goes_back_and_is_not_claimed_ahead_again(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with shop.at_work():
        jobs = [await shop.submit(n) for n in range(3)]
        await all_in(shop.queue, jobs, State.RUNNING)
        monkeypatch.setattr("euterpe.worker.attempts.PATIENCE_S", 0.0)
        await all_in(shop.queue, jobs[1:], State.SCHEDULED)
        rows = await rows_of(shop.queue, jobs)
        assert [(row.attempt_count, row.release_count) for row in rows] == [(1, 0), (0, 1), (0, 1)]
        for _ in range(3):
            shop.permits.release()
        await all_in(shop.queue, jobs, State.COMPLETED)
    assert shop.begun == [0, 1, 2]


@ON_SQLITE_ALONE
async def test_what_waited_on_a_suspended_machine_goes_back_and_does_not_begin(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`time.monotonic` stands still in suspend; the clock of the boot does not."""
    async with shop.at_work():
        jobs = [await shop.submit(n) for n in range(3)]
        await all_in(shop.queue, jobs, State.RUNNING)
        monkeypatch.setattr("euterpe.worker.attempts.awake_or_not_s", lambda: awake_or_not_s() + 7200.0)
        await all_in(shop.queue, jobs[1:], State.SCHEDULED)
        assert shop.begun == [0]


@ON_SQLITE_ALONE
async def test_what_waits_goes_back_uncharged_when_the_circuit_of_its_queue_opens(shop: Shop) -> None:
    shop.is_broken = True
    async with shop.at_work():
        jobs = [await shop.submit(n) for n in range(5)]
        await all_in(shop.queue, jobs, State.RUNNING)
        shop.permits.release()
        shop.permits.release()
        rows = await all_in(shop.queue, jobs[3:], State.SCHEDULED)
        assert [row.attempt_count for row in rows] == [0, 0]
        assert shop.begun in ([0, 1], [0, 1, 2]), "one may begin before the failure is counted"


async def test_a_job_that_kills_its_worker_pays_for_each_attempt_and_those_that_wait_behind_it_for_none(
    client: Queue, floor: Floor
) -> None:
    types = ["dies_on_the_loop", "quick"]
    first = await client.submit("gated", priority=0)
    poison = await client.submit("dies_on_the_loop", max_attempts=2, priority=1)
    waiting = [await client.submit("quick", {"value": n}) for n in range(6)]
    worker = floor.start(lease="3s", concurrency=1, ahead=types, sweep=False)
    await floor.noted("begun", first)
    await all_in(client, [poison, *waiting], State.RUNNING)
    floor.open_gate()
    assert await worker.ended() == 7
    rows = await all_in(client, waiting, State.SCHEDULED)
    assert {row.attempt_count for row in rows} == {0}, "what never began is not charged"
    charged = (await core_of(client).get(poison.id)).attempt_count
    assert charged == 1, "what began is charged"
    assert await floor.start(lease="3s", concurrency=1, ahead=types, sweep_interval_s=0.1).ended() == 7
    await floor.start(lease="3s", ahead=types, sweep_interval_s=0.1).working()
    assert (await in_state(client, poison, State.DEAD_LETTER)).attempt_count == 2
    assert len(floor.journal("begun", poison)) == 2
    assert {row.attempt_count for row in await all_in(client, waiting, State.COMPLETED)} == {1}


async def test_the_keeper_of_a_killed_worker_tries_again_when_its_connection_is_cut(
    fresh_postgres_url: str, tmp_path: Path
) -> None:
    async with faults.proxied(fresh_postgres_url) as (proxy, through), Queue(fresh_postgres_url) as client:
        floor = Floor(through, tmp_path)
        try:
            first = await client.submit("gated", priority=0)
            waiting = [await client.submit("quick", {"value": n}) for n in range(6)]
            worker = floor.start(lease="60s", concurrency=1, ahead=["quick"], sweep=False)
            await floor.noted("begun", first)
            await all_in(client, waiting, State.RUNNING)
            cut = proxy.cut("j.worker_id = $", faults.Cut.BEFORE)
            worker.kill()
            await cut.sprung.wait()
            rows = await all_in(client, waiting, State.SCHEDULED)
            assert {row.attempt_count for row in rows} == {0}, "what never began is not charged"
        finally:
            floor.dismiss()
