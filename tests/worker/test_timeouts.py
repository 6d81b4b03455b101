"""An execution timeout ends the attempt: a coroutine is cancelled, a thread left behind, a process really killed."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from euterpe.model.state import State
from euterpe.queue.queue import Queue
from euterpe.worker.context import Context
from tests.worker.conftest import ON_SQLITE_ALONE
from tests.worker.floor import Floor, in_state, is_alive, until
from tests.worker.inline import AT_ONCE, working


async def test_an_async_handler_is_cancelled_at_its_timeout_and_tried_again(url: str) -> None:
    queue = Queue(url)
    cancelled: list[int] = []

    @queue.job("slow", timeout="200ms", backoff=AT_ONCE)
    async def slow(ctx: Context) -> int:
        if ctx.attempt == 1:
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.append(ctx.attempt)
        return ctx.attempt

    async with working(queue):
        job = await queue.submit("slow")
        assert await job.result("20s") == 2
        attempts = await queue.attempts(job.id)
    assert cancelled == [1]
    assert [attempt.outcome for attempt in attempts] == ["timeout", "completed"]


async def test_the_error_of_a_timeout_names_the_time_that_was_allowed(url: str) -> None:
    queue = Queue(url)

    @queue.job("slow", timeout="150ms", max_attempts=1)
    async def slow() -> None:
        await asyncio.Event().wait()

    async with working(queue):
        ended = await (await queue.submit("slow")).wait("20s")
    assert ended.state is State.DEAD_LETTER
    assert ended.error is not None
    assert ended.error.code == "timeout"
    assert ended.error.category == "timeout"
    assert "0.15 s" in ended.error.message


async def test_a_timeout_that_must_not_be_retried_fails_the_job(url: str) -> None:
    queue = Queue(url)

    @queue.job("slow", timeout="100ms", retry_on_timeout=False)
    async def slow() -> None:
        await asyncio.Event().wait()

    async with working(queue):
        assert (await (await queue.submit("slow")).wait("20s")).state is State.FAILED


@pytest.mark.parametrize(("asked", "allowed_s"), [("100ms", 0.1), ("30m", 0.3)])
async def test_a_handler_may_shorten_the_timeout_of_a_submission_but_not_lengthen_it(
    url: str, asked: str, allowed_s: float
) -> None:
    queue = Queue(url)

    @queue.job("slow", timeout="300ms", max_attempts=1)
    async def slow(ctx: Context) -> None:
        remaining = ctx.deadline - time.monotonic()
        assert remaining <= allowed_s
        await asyncio.Event().wait()

    async with working(queue):
        job = await queue.submit("slow", timeout=asked)
        ended = await job.wait("20s")
    assert ended.error is not None
    assert f"{allowed_s:g} s" in ended.error.message


async def test_a_thread_past_its_timeout_is_settled_at_once_and_its_slot_stays_taken(url: str) -> None:
    queue = Queue(url)
    release, refused = threading.Event(), threading.Event()

    @queue.job("stuck", timeout="200ms", max_attempts=1)
    def stuck(ctx: Context) -> str:
        release.wait(60)
        try:
            ctx.progress(50)
        except Exception:  # noqa: BLE001  # whatever it is, the test looks at it below
            refused.set()
        return "too late"

    @queue.job("quick")
    async def quick() -> str:
        return "ran"

    async with working(queue, concurrency=1):
        job = await queue.submit("stuck")
        ended = await job.wait("20s")
        assert (ended.state, ended.result) == (State.DEAD_LETTER, None)
        waiting = await queue.submit("quick")
        await asyncio.sleep(0.2)  # The one slot is the lingering thread's: nothing may happen in this time.
        assert (await queue.get(waiting.id)).state is State.SCHEDULED
        release.set()
        assert await waiting.result("20s") == "ran"
        assert (await queue.get(job.id)).state is State.DEAD_LETTER
    assert refused.is_set()


async def test_a_process_past_its_timeout_is_killed_with_all_it_started(client: Queue, floor: Floor) -> None:
    worker = await floor.start().working()
    floor.open_gate()
    await in_state(client, await client.submit("gated_process"), State.COMPLETED)  # The process runs from now on.
    job = await client.submit("gated_process", {"gate": "never", "heeds": False}, timeout="1500ms", max_attempts=1)
    begun = await floor.noted("begun", job)
    assert begun["pid"] != worker.pid
    ended = await in_state(client, job, State.DEAD_LETTER)
    assert ended.error_document is not None
    assert ended.error_document["code"] == "timeout"
    await until(lambda: not is_alive(begun["pid"]) and not is_alive(begun["grandchild"]), "both are gone", 5)
    again = await client.submit("gated_process")
    assert (await in_state(client, again, State.COMPLETED)).result == b'"done"'


@ON_SQLITE_ALONE
async def test_the_process_of_a_handler_ends_with_its_killed_worker(client: Queue, floor: Floor) -> None:
    worker = await floor.start().working()
    job = await client.submit("gated_process", {"gate": "never", "heeds": False})
    begun = await floor.noted("begun", job)
    worker.kill()
    await until(lambda: not is_alive(begun["pid"]) and not is_alive(begun["grandchild"]), "both are gone", 10)


async def test_a_handler_that_swallows_its_cancellation_is_settled_without_it(
    url: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("euterpe.worker.attempts.UNCANCELLABLE_S", 0.2)
    queue = Queue(url)
    release = asyncio.Event()

    @queue.job("deaf", timeout="100ms", max_attempts=1)
    async def deaf() -> str:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        return "too late"

    async with working(queue):
        job = await queue.submit("deaf")
        assert (await job.wait("20s")).state is State.DEAD_LETTER
        release.set()
    assert "does not let itself be cancelled" in caplog.text
    async with queue:
        assert (await queue.get(job.id)).state is State.DEAD_LETTER


async def test_a_handler_that_was_settled_without_it_ends_with_its_worker(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("euterpe.worker.attempts.UNCANCELLABLE_S", 0.2)
    queue = Queue(url)
    ended = False

    @queue.job("deaf", timeout="100ms", max_attempts=1)
    async def deaf() -> None:
        nonlocal ended
        try:
            while True:
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    continue
        finally:
            ended = True

    async with working(queue):
        job = await queue.submit("deaf")
        assert (await job.wait("20s")).state is State.DEAD_LETTER
        assert not ended
    assert ended, "nothing of a worker goes on without it"


async def test_a_handler_that_returns_after_its_timeout_has_still_timed_out(url: str) -> None:
    queue = Queue(url)

    @queue.job("late", timeout="100ms", max_attempts=1)
    async def late() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "as if nothing had been"
        return ""

    async with working(queue):
        ended = await (await queue.submit("late")).wait("20s")
    assert (ended.state, ended.result) == (State.DEAD_LETTER, None)
