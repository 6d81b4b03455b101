"""What a handler is told and what it tells: identity, progress, checkpoints, stages, children."""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any

import pytest

from euterpe.model.errors import IllegalTransition, InvalidInput, JobFailed, PayloadTooLarge, TemporaryError
from euterpe.model.state import State
from euterpe.queue.job import Progress
from euterpe.queue.queue import Queue, core_of
from euterpe.worker.context import Context
from tests.patience import in_time
from tests.worker import app
from tests.worker.floor import in_state, until
from tests.worker.inline import AT_ONCE, working


async def test_a_handler_knows_who_it_is_and_what_came_before(url: str) -> None:
    queue = Queue(url)
    seen: list[dict[str, Any]] = []

    @queue.job("who", backoff=AT_ONCE)
    async def who(ctx: Context) -> None:
        seen.append(
            {
                "job_id": ctx.job_id,
                "attempt": ctx.attempt,
                "max_attempts": ctx.max_attempts,
                "attempt_id": ctx.attempt_id,
                "previous": ctx.previous_attempt_id,
                "tags": ctx.tags,
                "correlation_id": ctx.correlation_id,
                "cancelled": ctx.cancelled,
                "left_s": ctx.deadline - time.monotonic(),
            }
        )
        if ctx.attempt < 3:
            raise TemporaryError("not yet")

    async with working(queue):
        job = await queue.submit("who", tags={"team": "a"}, correlation_id="trace-1", timeout="5m")
        await job.result("20s")
    assert [s["attempt"] for s in seen] == [1, 2, 3]
    assert [s["attempt_id"] for s in seen] == [f"{job.id}:{n}" for n in (1, 2, 3)]
    assert [s["previous"] for s in seen] == [None, f"{job.id}:1", f"{job.id}:2"]
    first = seen[0]
    assert (first["job_id"], first["max_attempts"], first["cancelled"]) == (job.id, 3, False)
    assert (first["tags"], first["correlation_id"]) == ({"team": "a"}, "trace-1")
    assert 200 < first["left_s"] <= 300


async def test_progress_is_written_when_it_is_awaited(url: str) -> None:
    queue = Queue(url)

    @queue.job("works")
    async def works(ctx: Context) -> float | None:
        await ctx.progress(40, "almost \x00half")
        told = (await queue.get(ctx.job_id)).progress
        return None if told is None else told.percent

    async with working(queue):
        job = await queue.submit("works")
        assert await job.result("20s") == 40.0
        ended = await queue.get(job.id)
    assert ended.progress == Progress(40.0, "almost half")


async def test_ten_thousand_reports_are_merged_and_the_last_one_stands(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = Queue(url)
    writes = 0

    @queue.job("chatty")
    async def chatty(ctx: Context) -> None:
        for n in range(10_000):
            ctx.progress(n / 100, f"step {n}")
            if n % 1000 == 0:
                await asyncio.sleep(0)

    async with working(queue):
        advance = core_of(queue).store.update_progress

        async def counted(news: Any) -> Any:
            nonlocal writes
            writes += 1
            return await advance(news)

        monkeypatch.setattr(core_of(queue).store, "update_progress", counted)
        job = await queue.submit("chatty")
        await job.result("30s")
        ended = await queue.get(job.id)
    assert ended.progress == Progress(99.99, "step 9999")
    assert 1 <= writes < 100


@pytest.mark.parametrize("mode", ["async", "thread"])
@pytest.mark.parametrize("value", [{"page": 7, "of": [1, 2]}, b"\x00\xff raw", "text", 0])
async def test_a_checkpoint_that_was_only_sent_off_is_there_for_the_next_attempt(
    url: str, mode: str, value: Any
) -> None:
    """Not awaited: it is written before the failed attempt is settled all the same."""
    queue = Queue(url)
    found: list[Any] = []

    def step(ctx: Context) -> str:
        found.append(ctx.last_checkpoint)
        if ctx.attempt == 1:
            ctx.checkpoint(value)
            raise TemporaryError("once more")
        return "done"

    if mode == "async":

        @queue.job("steps", backoff=AT_ONCE)
        async def steps_async(ctx: Context) -> str:
            return step(ctx)
    else:
        queue.job("steps", backoff=AT_ONCE)(step)

    async with working(queue):
        assert await (await queue.submit("steps")).result("20s") == "done"
    assert found == [None, value]


async def test_a_thread_can_wait_until_its_news_is_written(url: str) -> None:
    queue = Queue(url)

    @queue.job("works")
    def works(ctx: Context) -> None:
        ctx.progress(30).wait(20)
        ctx.checkpoint({"at": 1}).wait(20)
        assert queue.sync.get(ctx.job_id).progress == Progress(30.0)

    async with working(queue):
        await (await queue.submit("works")).result("20s")


def returns_early(ctx: Context) -> str:
    ctx.stage("fetching").wait()
    return "too early"


async def test_stages_move_forward_and_each_of_them_is_seen(url: str) -> None:
    queue = Queue(url)
    seen: list[str | None] = []

    @queue.job("staged", stages=["claimed", "fetching", "processing", "uploading"])
    async def staged(ctx: Context) -> None:
        seen.append((await queue.get(ctx.job_id)).stage)
        for stage in ("fetching", "processing", "uploading"):
            await ctx.stage(stage)
            seen.append((await queue.get(ctx.job_id)).stage)

    async with working(queue):
        await (await queue.submit("staged")).result("20s")
    assert seen == ["claimed", "fetching", "processing", "uploading"]


@pytest.mark.parametrize("process", [False, True])
async def test_a_handler_that_returns_before_the_last_stage_has_failed(url: str, process: bool) -> None:
    queue = Queue(url)
    queue.job("early", stages=["claimed", "fetching", "processing"], process=process)(returns_early)
    async with working(queue):
        job = await queue.submit("early")
        with pytest.raises(JobFailed) as failed:
            await job.result("20s")
    assert failed.value.state == "failed"
    assert failed.value.error is not None
    assert failed.value.error.code == "illegal_transition"


@pytest.mark.parametrize("wrong", ["fetching", "nowhere", "processing"])
async def test_a_wrong_stage_is_an_error_in_the_handler_and_not_a_lost_lease(url: str, wrong: str) -> None:
    queue = Queue(url)

    @queue.job("staged", stages=["claimed", "fetching", "processing"])
    async def staged(ctx: Context) -> str:
        if wrong == "processing":
            with pytest.raises(IllegalTransition, match="the next stage is fetching"):
                await ctx.stage(wrong)
        await ctx.stage("fetching")
        await ctx.stage("processing")
        if wrong != "processing":
            with pytest.raises(IllegalTransition):
                await ctx.stage(wrong)
        return "went on"

    async with working(queue):
        assert await (await queue.submit("staged")).result("20s") == "went on"


@pytest.mark.parametrize("percent", [-1, 100.5, float("nan"), "half", True])
async def test_progress_outside_of_its_range_is_refused(url: str, percent: Any) -> None:
    queue = Queue(url)

    @queue.job("works")
    async def works(ctx: Context) -> str:
        with pytest.raises(InvalidInput) as refused:
            await ctx.progress(percent)
        return refused.value.field

    async with working(queue):
        assert await (await queue.submit("works")).result("20s") == "progress"


async def test_a_checkpoint_that_is_too_large_or_no_json_is_refused(url: str) -> None:
    queue = Queue(url)

    @queue.job("works")
    async def works(ctx: Context) -> str:
        with pytest.raises(PayloadTooLarge):
            await ctx.checkpoint(b"x" * 1_000_001)
        with pytest.raises(InvalidInput):
            await ctx.checkpoint(object())
        return "went on"

    async with working(queue):
        assert await (await queue.submit("works")).result("20s") == "went on"


async def test_retry_after_is_waited_for_when_it_is_longer_than_the_backoff(url: str) -> None:
    queue = Queue(url)
    at: list[float] = []

    @queue.job("limited", backoff=AT_ONCE)
    async def limited(ctx: Context) -> None:
        at.append(time.monotonic())
        if ctx.attempt == 1:
            raise TemporaryError("slow down", retry_after="700ms")
        if ctx.attempt == 2:
            raise TemporaryError("an odd word", retry_after="soon")

    async with working(queue):
        await (await queue.submit("limited")).result("20s")
    assert at[1] - at[0] >= 0.7
    in_time(at[2] - at[1], 5)


async def test_children_that_a_job_spawns_are_waited_for_by_its_fan_in(url: str) -> None:
    queue = Queue(url)
    order: list[str] = []

    @queue.job("child")
    async def child(n: int) -> None:
        await asyncio.sleep(0.05 * n)
        order.append(f"child {n}")

    @queue.job("parent")
    async def parent(ctx: Context) -> list[str]:
        ids = [await ctx.spawn("child", {"n": n}) for n in range(3)]
        order.append("parent")
        return ids

    @queue.job("sum")
    async def total() -> int:
        order.append("sum")
        return len(order)

    async with working(queue):
        first, last = await queue.fan_out([parent.with_args()], then=total.with_args())
        assert await last.result("20s") == 5
        ids = await first.result()
        children = [await queue.get(job_id) for job_id in ids]
    assert sorted(order[:-1]) == ["child 0", "child 1", "child 2", "parent"]
    assert order[-1] == "sum"
    assert {job.parent_id for job in children} == {first.id}


async def test_a_process_handler_has_the_whole_context(url: str) -> None:
    """Identity, news that can be waited for, checkpoints of bytes, children, arguments that are more than JSON."""
    queue = app.queue
    before = core_of(queue).exchange_backend(core_of(Queue(url))._backend)
    try:
        async with working(queue):
            job = await queue.submit("whole_context", {"day": "2026-01-07"}, tags={"a": "b"}, correlation_id="c")
            told = await job.result("30s")
            ended = await queue.get(job.id)
            children = await queue.search(type="quick")
    finally:
        core_of(queue).exchange_backend(before)
    assert told["pid"] != os.getpid()
    assert told["seen"] == [None, "\x00raw"]
    assert told["weekday"] == 2
    assert (told["attempt"], told["previous"]) == (2, f"{job.id}:1")
    assert (told["tags"], told["correlation_id"]) == ({"a": "b"}, "c")
    assert (ended.progress, ended.stage) == (Progress(75.0, "nearly"), "thinking")
    assert [child.parent_id for child in children.jobs] == [job.id]
    assert [child.id for child in children.jobs] == [told["child"]]


async def test_a_lost_lease_is_an_error_in_the_handler_that_reports(url: str) -> None:
    """Another claim took the job: the next word of the old attempt is refused, and its result is dropped."""
    queue = Queue(url)
    begun, taken = asyncio.Event(), asyncio.Event()
    stopped: list[str] = []

    @queue.job("long")
    async def long(ctx: Context) -> str:
        begun.set()
        await taken.wait()
        try:
            await ctx.progress(50)
        except (Exception, asyncio.CancelledError) as error:
            stopped.append(type(error).__name__)
            raise
        return "never"

    async with working(queue):
        job = await queue.submit("long")
        await begun.wait()
        await queue.cancel(job.id, force=True)
        taken.set()
        await until(lambda: stopped, "the handler is stopped")
        ended = await in_state(queue, job, State.CANCELLED)
    assert stopped[0] in ("StaleLease", "CancelledError")
    assert ended.result is None
