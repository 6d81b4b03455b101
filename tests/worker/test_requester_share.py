"""One requester holds no more than its share of a worker while jobs of others wait, and all of it while none do."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from euterpe.model.state import State
from euterpe.model.submitting.submission import LOCAL_REQUESTER, Submission
from euterpe.queue.queue import Queue, core_of
from euterpe.worker.claiming import requester_share
from euterpe.worker.context import Context
from euterpe.worker.loop import WorkerLoop
from euterpe.worker.settings import WorkerSettings
from tests.worker.floor import until


class Tenants:
    """Jobs of several requesters that each run until they are let go."""

    def __init__(self, url: str) -> None:
        self.queue = Queue(url)
        self.let_go = asyncio.Semaphore(0)
        self.running: list[str] = []
        self.begun: list[str] = []
        self.ids: dict[str, str] = {}
        self.worker: WorkerLoop

        @self.queue.job("slow", worker_limit=4)
        async def slow(ctx: Context) -> None:
            await self._run(ctx)

        @self.queue.job("plain")
        async def plain(ctx: Context) -> None:
            await self._run(ctx)

    async def _run(self, ctx: Context) -> None:
        requester = self.ids[ctx.job_id]
        self.running.append(requester)
        self.begun.append(requester)
        try:
            await self.let_go.acquire()
        finally:
            self.running.remove(requester)

    async def submit(self, requester: str, count: int, job_type: str = "slow") -> None:
        for _ in range(count):
            submission = Submission(type=job_type, payload=b"{}", requester_id=requester)
            receipt = await core_of(self.queue).store.submit(submission)
            self.ids[receipt.job_id] = requester

    @asynccontextmanager
    async def at_work(self, concurrency: int = 20, share: float = 0.5) -> AsyncIterator[None]:
        core = core_of(self.queue)
        settings = WorkerSettings(worker_id="w:1", concurrency=concurrency, poll_s=0.05, requester_share=share)
        self.worker = WorkerLoop(core.store, core.handlers, settings, wakeups=core.wakeups)
        running = asyncio.create_task(self.worker.run())
        try:
            yield
        finally:
            self.worker.stop_at_once()
            await running

    async def runs(self, **expected: int) -> None:
        async def as_expected() -> bool | None:
            return {name: self.running.count(name) for name in expected} == expected or None

        await until(as_expected, f"{expected} run")

    async def let_one_go(self) -> None:
        """As soon as the worker would look for others again."""

        async def may_look() -> bool | None:
            return time.monotonic() > self.worker._plan._share._look_at or None

        await until(may_look, "the pause is over")
        self.let_go.release()

    async def has_begun(self, count: int) -> None:
        async def enough() -> bool | None:
            return len(self.begun) >= count or None

        await until(enough, f"{count} have begun")


@pytest.fixture
async def tenants(url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Tenants]:
    monkeypatch.setattr(requester_share, "LOOK_AGAIN_S", 0.1)
    monkeypatch.setattr(requester_share, "PAUSE_FACTOR", 0)
    monkeypatch.setattr(requester_share, "COUNT_AGAIN_S", 0.0)
    tenants = Tenants(url)
    async with tenants.queue:
        yield tenants


async def test_a_second_requester_gets_half_of_the_places_before_a_longer_line(tenants: Tenants) -> None:
    await tenants.submit("mallory", 12)
    await tenants.submit("bob", 6)
    async with tenants.at_work():
        await tenants.runs(mallory=2, bob=2)
        for begun in range(5, 9):
            await tenants.let_one_go()
            await tenants.has_begun(begun)
            assert tenants.running.count("mallory") <= 2
        assert tenants.begun.count("bob") == 4


async def test_places_that_fall_free_go_to_a_requester_that_came_later(tenants: Tenants) -> None:
    """Nothing that runs is stopped for it."""
    await tenants.submit("mallory", 12)
    async with tenants.at_work():
        await tenants.runs(mallory=4)
        await tenants.submit("bob", 3)
        await tenants.let_one_go()
        await tenants.runs(mallory=3, bob=1)
        rows = [await core_of(tenants.queue).get(job) for job in tenants.ids]
        assert sum(row.release_count for row in rows) == 0


async def test_a_lone_requester_fills_every_place(tenants: Tenants) -> None:
    await tenants.submit("mallory", 8)
    async with tenants.at_work():
        await tenants.runs(mallory=4)
        for _ in range(8):
            tenants.let_go.release()
        await tenants.has_begun(8)


async def test_the_slots_of_all_types_are_shared_too(tenants: Tenants, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requester_share, "LONG_S", 0.0)
    await tenants.submit("mallory", 20, "plain")
    async with tenants.at_work(concurrency=4):
        await tenants.runs(mallory=4)
        await tenants.submit("bob", 3, "plain")
        await tenants.let_one_go()
        await tenants.runs(mallory=3, bob=1)
        await tenants.let_one_go()
        await tenants.has_begun(6)
        assert tenants.begun.count("bob") == 2


async def test_a_share_of_one_leaves_the_line_as_it_is(tenants: Tenants) -> None:
    await tenants.submit("mallory", 12)
    await tenants.submit("bob", 6)
    async with tenants.at_work(share=1.0):
        await tenants.runs(mallory=4, bob=0)
        tenants.let_go.release()
        await tenants.has_begun(5)
        assert set(tenants.begun) == {"mallory"}


async def test_jobs_of_the_application_are_not_bounded(tenants: Tenants) -> None:
    await tenants.submit(LOCAL_REQUESTER, 12)
    await tenants.submit("bob", 6)
    async with tenants.at_work():
        await tenants.runs(**{LOCAL_REQUESTER: 4})
        assert "bob" not in tenants.begun


async def test_a_claim_for_others_takes_the_most_urgent_of_them(tenants: Tenants) -> None:
    from euterpe.model.claims.exchange import ClaimRequest

    store = core_of(tenants.queue).store
    for priority, requester in ((0, "mallory"), (3, "bob"), (1, "carol"), (2, "bob")):
        await store.submit(Submission(type="slow", payload=b"{}", requester_id=requester, priority=priority))
    request = ClaimRequest(worker_id="w:1", limit=2, types=("slow",), other_than=("mallory",))
    _, claims = await store.exchange([], request)
    assert [(claim.job.requester_id, claim.job.priority) for claim in claims] == [("carol", 1), ("bob", 2)]
    assert all(claim.job.state is State.RUNNING for claim in claims)
