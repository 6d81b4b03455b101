"""A worker claims a job type with `worker_limit` only as far as it can start it; the rest stays in the queue."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from euterpe.model.errors import InvalidInput
from euterpe.model.state import State
from euterpe.queue.handle import JobHandle
from euterpe.queue.queue import Queue, core_of
from euterpe.worker.loop import WorkerLoop
from euterpe.worker.settings import WorkerSettings
from tests.worker.floor import in_state, until
from tests.worker.pacing import Eager


class Workshop:
    """A queue with a heavy type, of which two run at once in a worker, and a light one without a limit."""

    def __init__(self, url: str) -> None:
        self.queue = Queue(url)
        self.permits = asyncio.Semaphore(0)
        self.begun: list[int] = []
        self.light = self.ended_before = 0
        self.at_once = self.most_at_once = 0

        @self.queue.job("heavy", worker_limit=2)
        async def heavy(n: int) -> None:
            self.begun.append(n)
            self.ended_before = self.light
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
            try:
                await self.permits.acquire()
            finally:
                self.at_once -= 1

        @self.queue.job("light")
        async def light() -> None:
            self.light += 1

    async def submit(self, n: int, priority: str = "normal") -> JobHandle[Any]:
        return await self.queue.submit("heavy", {"n": n}, priority=priority)

    @asynccontextmanager
    async def at_work(
        self, name: str = "w:1", concurrency: int = 10, pace: Eager | None = None
    ) -> AsyncIterator[WorkerLoop]:
        core = core_of(self.queue)
        settings = WorkerSettings(worker_id=name, concurrency=concurrency, poll_s=0.05)
        worker = WorkerLoop(core.store, core.handlers, settings, wakeups=core.wakeups, pace=pace)
        running = asyncio.create_task(worker.run())
        try:
            yield worker
        finally:
            worker.stop_at_once()
            await running

    async def has_begun(self, count: int) -> None:
        async def enough() -> bool | None:
            return len(self.begun) >= count or None

        await until(enough, f"{count} heavy jobs have begun")


@pytest.fixture
async def shop(url: str) -> AsyncIterator[Workshop]:
    shop = Workshop(url)
    async with shop.queue:
        yield shop


async def states_of(shop: Workshop, jobs: list[JobHandle[Any]]) -> list[tuple[State, int]]:
    rows = [await core_of(shop.queue).get(job.id) for job in jobs]
    return [(row.state, row.attempt_count) for row in rows]


async def test_a_full_type_stays_in_the_queue_while_other_types_run(shop: Workshop) -> None:
    jobs = [await shop.submit(n) for n in range(5)]
    async with shop.at_work():
        await shop.has_begun(2)
        others = [await shop.queue.submit("light") for _ in range(20)]
        for other in others:
            await in_state(shop.queue, other, State.COMPLETED)
        assert await states_of(shop, jobs) == [(State.RUNNING, 1)] * 2 + [(State.SCHEDULED, 0)] * 3
        shop.permits.release()
        await shop.has_begun(3)
        for _ in range(4):
            shop.permits.release()
        for job in jobs:
            await in_state(shop.queue, job, State.COMPLETED)
    assert shop.most_at_once == 2


async def test_the_most_urgent_waiting_job_gets_the_place_that_falls_free(shop: Workshop) -> None:
    for n in range(5):
        await shop.submit(n)
    async with shop.at_work():
        await shop.has_begun(2)
        await shop.submit(9, priority="critical")
        shop.permits.release()
        await shop.has_begun(3)
        assert shop.begun[2] == 9


async def test_the_ready_buffer_holds_no_job_of_a_limited_type(shop: Workshop) -> None:
    jobs = [await shop.submit(n) for n in range(8)]
    async with shop.at_work(pace=Eager(4, "heavy")):
        await shop.has_begun(2)
        await in_state(shop.queue, await shop.queue.submit("light"), State.COMPLETED)
        assert [state for state, _ in await states_of(shop, jobs)].count(State.RUNNING) == 2


async def test_a_second_worker_gets_what_the_first_cannot_start(shop: Workshop) -> None:
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(shop.at_work("w:1"))
        await stack.enter_async_context(shop.at_work("w:2"))
        jobs = [await shop.submit(n) for n in range(6)]
        await shop.has_begun(4)
        rows = [await core_of(shop.queue).get(job.id) for job in jobs]
        workers = sorted(row.worker_id or "" for row in rows if row.state is State.RUNNING)
        assert workers == ["w:1", "w:1", "w:2", "w:2"]
        for _ in range(6):
            shop.permits.release()
        for job in jobs:
            await in_state(shop.queue, job, State.COMPLETED)


async def test_a_limited_type_gets_its_turn_beside_a_long_line_of_others(shop: Workshop) -> None:
    """Heavy jobs that come behind a backlog of light ones begin before that is worked off, up to their limit."""
    await shop.queue.submit_many([("light", {})] * 3000)
    await shop.submit(1)
    async with shop.at_work(concurrency=100):
        await shop.has_begun(1)
    assert shop.ended_before < 3000


async def test_scarce_slots_go_to_the_most_urgent_of_all_types(shop: Workshop) -> None:
    """With one slot a claim is for limited and other types together."""
    shop.permits.release()
    low = await shop.submit(1, priority="low")
    high = await shop.queue.submit("light", priority="high")
    async with shop.at_work(concurrency=1):
        await in_state(shop.queue, low, State.COMPLETED)
        await in_state(shop.queue, high, State.COMPLETED)
    first, second = [await core_of(shop.queue).get(job.id) for job in (high, low)]
    assert (first.started_at or 0) < (second.started_at or 0)


async def test_a_worker_of_limited_types_alone_fills_its_places(url: str) -> None:
    queue, begun, ended = Queue(url), asyncio.Semaphore(0), asyncio.Event()

    @queue.job("alone", worker_limit=3)
    async def alone() -> None:
        begun.release()
        await ended.wait()

    async with queue:
        jobs = [await queue.submit("alone") for _ in range(7)]
        core = core_of(queue)
        settings = WorkerSettings(worker_id="w:1", concurrency=100, poll_s=0.05)
        worker = WorkerLoop(core.store, core.handlers, settings, wakeups=core.wakeups)
        running = asyncio.create_task(worker.run())
        for _ in range(3):
            await begun.acquire()
        assert len(worker.running) == 3
        ended.set()
        for job in jobs:
            await in_state(queue, job, State.COMPLETED)
        worker.stop()
        await running


@pytest.mark.parametrize("limit", [0, -1, 1.5, True, "2"])
def test_a_wrong_limit_is_refused_at_the_decorator(limit: Any) -> None:
    with pytest.raises(InvalidInput, match="worker_limit"):

        @Queue("sqlite:///:memory:").job("x", worker_limit=limit)
        async def x() -> None: ...
