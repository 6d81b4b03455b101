"""What an attempt spawns is stored before the attempt is settled, awaited or not."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from euterpe.model.errors import StoreUnavailable
from euterpe.model.state import State
from euterpe.queue.queue import Queue, core_of
from euterpe.worker.context import Context
from tests.worker.inline import AT_ONCE, work_on, working


def with_child(url: str) -> Queue:
    queue = Queue(url)

    @queue.job("child", queue="children")
    async def child() -> None: ...

    return queue


async def children(queue: Queue) -> int:
    return len((await queue.search(type="child")).jobs)


async def test_a_spawn_that_nobody_awaits_is_stored_before_its_parent_is_settled(url: str) -> None:
    queue = with_child(url)

    @queue.job("on_the_loop")
    async def on_the_loop(ctx: Context) -> None:
        for _ in range(5):
            ctx.spawn("child")

    @queue.job("in_a_thread")
    def in_a_thread(ctx: Context) -> None:
        for _ in range(5):
            ctx.spawn("child")

    async with working(queue):
        for number, job_type in enumerate(("on_the_loop", "in_a_thread"), 1):
            await (await queue.submit(job_type)).result("20s")
            assert await children(queue) == number * 5


class Slow:
    """A store whose spawns wait for a gate, and may be refused there."""

    def __init__(self, queue: Queue, error: Exception | None = None) -> None:
        self.begun, self.gate = asyncio.Event(), asyncio.Event()
        self._spawn = core_of(queue).spawn
        self._error = error
        core_of(queue).spawn = self  # type: ignore[method-assign, assignment]

    async def __call__(self, *said: Any) -> Any:
        self.begun.set()
        await self.gate.wait()
        if self._error is not None:
            raise self._error
        return await self._spawn(*said)


async def test_a_spawn_whose_waiter_is_cancelled_is_part_of_the_attempt_all_the_same(url: str) -> None:
    queue = with_child(url)
    slow = Slow(queue)
    gave_up = asyncio.Event()

    @queue.job("parent")
    async def parent(ctx: Context) -> str:
        try:
            async with asyncio.timeout(0.01):
                await ctx.spawn("child")
        except TimeoutError:
            gave_up.set()
            return "gave up"
        return "stored"

    async with working(queue):
        job = await queue.submit("parent")
        await slow.begun.wait()
        await gave_up.wait()
        for _ in range(20):  # as often as a settle would need, and more
            await queue.get(job.id)
        assert (await queue.get(job.id)).state is State.RUNNING
        slow.gate.set()
        assert await job.result("20s") == "gave up"
        assert await children(queue) == 1


@pytest.mark.parametrize("mode", ["on_the_loop", "in_a_thread"])
async def test_a_spawn_that_failed_unseen_fails_the_attempt_and_a_seen_one_is_the_handlers_own_affair(
    sqlite_url: str, mode: str
) -> None:
    queue = with_child(sqlite_url)
    slow = Slow(queue, StoreUnavailable("away"))
    slow.gate.set()

    @queue.job("on_the_loop", max_attempts=1, backoff=AT_ONCE)
    async def on_the_loop(ctx: Context, look: bool) -> str:
        sent = ctx.spawn("child")
        if look:
            with pytest.raises(StoreUnavailable):
                await sent
        return "done"

    @queue.job("in_a_thread", max_attempts=1, backoff=AT_ONCE)
    def in_a_thread(ctx: Context, look: bool) -> str:
        sent = ctx.spawn("child")
        if look:
            with pytest.raises(StoreUnavailable):
                sent.wait(20)
        return "done"

    async with working(queue):
        unseen = await (await queue.submit(mode, {"look": False})).wait("20s")
        seen = await (await queue.submit(mode, {"look": True})).wait("20s")
    assert unseen.state is State.DEAD_LETTER
    assert unseen.error is not None
    assert unseen.error.code == "StoreUnavailable"
    assert seen.state is State.COMPLETED


async def test_an_order_to_stop_does_not_part_a_finished_job_from_its_spawn(url: str) -> None:
    """The handler has returned; only the spawn is on its way when everything is to be given back."""
    queue = with_child(url)
    slow = Slow(queue)
    returned = asyncio.Event()

    @queue.job("parent")
    async def parent(ctx: Context) -> str:
        ctx.spawn("child")
        returned.set()
        return "done"

    at_once = asyncio.Event()
    async with queue:
        work = asyncio.create_task(work_on(queue, keeper=False, at_once=at_once, webhooks=False))
        job = await queue.submit("parent")
        await returned.wait()
        await slow.begun.wait()
        at_once.set()
        for _ in range(20):  # as often as a settle would need, and more
            await queue.get(job.id)
        slow.gate.set()
        await work
        assert (await queue.get(job.id)).state is State.COMPLETED
        assert await children(queue) == 1
