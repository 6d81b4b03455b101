"""Whatever a handler does wrong becomes a clear error on its job, and the worker lives on."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

import msgspec
import pytest

import euterpe
from euterpe.model.errors import PermanentError, TemporaryError
from euterpe.model.state import State
from euterpe.queue.queue import Queue, core_of
from euterpe.worker.context import Context
from tests.worker import app
from tests.worker.floor import Floor, in_state, until
from tests.worker.inline import AT_ONCE, working


async def ended_and_alive(queue: Queue, job_type: str, payload: Any = None, **options: Any) -> dict[str, Any]:
    """The error of a job of that type, from a worker that ran another job afterwards."""

    @queue.job("healthy")
    async def healthy() -> str:
        return "alive"

    async with working(queue):
        job = await queue.submit(job_type, payload, **options)
        ended = await job.wait("60s")
        assert await (await queue.submit("healthy")).result("60s") == "alive"
    assert ended.error is not None
    return {"state": ended.state, "attempts": ended.attempt, **msgspec.structs.asdict(ended.error)}


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def raise_it(error: BaseException) -> Callable[[], None]:
    def act() -> None:
        raise error

    return act


@pytest.mark.parametrize("mode", ["async", "thread"])
@pytest.mark.parametrize(
    ("act", "code", "state"),
    [
        (raise_it(PermanentError("gone", code="no_such_file")), "no_such_file", State.FAILED),
        (raise_it(TemporaryError("later")), "temporary", State.DEAD_LETTER),
        (raise_it(KeyError("missing")), "KeyError", State.DEAD_LETTER),
        (raise_it(Unprintable()), "Unprintable", State.DEAD_LETTER),
        (raise_it(ValueError("nul \x00, lone surrogate \ud800")), "ValueError", State.DEAD_LETTER),
        (raise_it(ValueError("x" * 1_000_000)), "ValueError", State.DEAD_LETTER),
        (raise_it(PermanentError("odd", code="\x00\ud800")), "?", State.FAILED),
        (raise_it(asyncio.CancelledError()), "CancelledError", State.DEAD_LETTER),
        (lambda: sys.exit(3), "SystemExit", State.DEAD_LETTER),
        (raise_it(StopIteration()), "RuntimeError", State.DEAD_LETTER),
        (raise_it(ExceptionGroup("two", [ValueError("a"), KeyError("b")])), "ExceptionGroup", State.DEAD_LETTER),
    ],
)
async def test_whatever_a_handler_raises_is_the_error_of_its_job(
    sqlite_url: str, mode: str, act: Callable[[], None], code: str, state: State
) -> None:
    queue = Queue(sqlite_url)
    if mode == "async":

        @queue.job("raises", max_attempts=2, backoff=AT_ONCE)
        async def raises_async() -> None:
            act()
    else:

        @queue.job("raises", max_attempts=2, backoff=AT_ONCE)
        def raises_in_a_thread() -> None:
            act()

    error = await ended_and_alive(queue, "raises")
    assert (error["state"], error["code"]) == (state, code)
    assert error["attempts"] == (1 if state is State.FAILED else 2)
    assert 0 < len(error["message"]) <= 4000


@pytest.mark.parametrize("value", ["nul \x00 and surrogate \ud800", "x" * 100_000])
async def test_an_odd_error_can_be_written_on_every_engine(url: str, value: str) -> None:
    queue = Queue(url)

    @queue.job("raises", max_attempts=1)
    async def raises() -> None:
        raise ValueError(value)

    assert (await ended_and_alive(queue, "raises"))["code"] == "ValueError"


async def test_the_error_keeps_the_stack_and_the_cause(sqlite_url: str) -> None:
    queue = Queue(sqlite_url)

    @queue.job("raises", max_attempts=1)
    async def raises() -> None:
        raise PermanentError("the report is gone", cause=FileNotFoundError("report-7.pdf"), code="gone")

    error = await ended_and_alive(queue, "raises")
    assert error["message"] == "the report is gone"
    assert "report-7.pdf" in error["stack"]
    assert "in raises" in error["stack"]


@pytest.mark.parametrize(
    ("value", "word"),
    [(object(), "JSON"), ({1: {2, object}}, "JSON"), ("x" * 1_000_001, "1000003 bytes; the limit is 1000000")],
)
async def test_a_result_that_cannot_be_kept_fails_the_job_for_good(url: str, value: Any, word: str) -> None:
    queue = Queue(url)

    @queue.job("returns", backoff=AT_ONCE)
    async def returns() -> Any:
        return value

    error = await ended_and_alive(queue, "returns")
    assert (error["state"], error["code"], error["attempts"]) == (State.FAILED, "bad_result", 1)
    assert word in error["message"]


@pytest.mark.parametrize(
    ("stored", "word"),
    [
        ({"report": 7}, "report"),
        ({"report_id": "seven"}, "Expected `int`, got `str`"),
        ({"report_id": 7, "colour": "red"}, "colour"),
        ([7], "array"),
        (b"\xff\xfe raw", "bytes"),
    ],
)
async def test_arguments_of_another_version_are_left_to_workers_that_fit_and_cost_nothing(
    url: str, stored: Any, word: str
) -> None:
    async with Queue(url) as older_version:
        job = await older_version.submit("render", stored)
    queue = Queue(url)
    ran: list[int] = []

    @queue.job("render", backoff=AT_ONCE)
    async def render(report_id: int) -> None:
        ran.append(report_id)

    async with working(queue):
        left = await in_state(queue, job, State.RETRYING)
    assert ran == []
    assert (left.attempt_count, left.release_count) == (0, 0)
    assert left.error_document is not None
    assert left.error_document["code"] == "bad_payload"
    assert "render" in left.error_document["message"]
    assert word in left.error_document["message"]


async def test_during_a_rolling_deploy_the_new_version_runs_what_the_old_one_leaves(url: str) -> None:
    old, new = Queue(url), Queue(url)
    ran: list[str] = []
    told: list[BaseException] = []

    @old.job("render")
    async def render(report_id: int) -> None:
        ran.append("old")

    @old.on_error
    async def report(ctx: object, error: BaseException) -> None:
        told.append(error)

    @new.job("render", max_attempts=1)
    async def render_in_colour(report_id: int, colour: str) -> str:
        ran.append(f"new {colour}")
        return colour

    async def has_met_both() -> bool:
        """Whoever is first has it. The old one may be several times, and the pauses grow: it is gone at last."""
        return len(await new.attempts(job.id)) > 2 or (await new.get(job.id)).state == State.COMPLETED

    async with new, AsyncExitStack() as second:
        async with working(old):
            job = await render_in_colour.submit(report_id=7, colour="red")
            await in_state(new, job, State.RETRYING)
            await second.enter_async_context(working(new))
            await until(has_met_both, "an attempt by the new version, or a third by the old one")
        assert await job.result("60s") == "red"
    assert ran == ["new red"]
    assert told == []
    attempts = await old_attempts(new, job.id)
    assert attempts[-1] == "completed"
    assert set(attempts[:-1]) == {"released"}


async def old_attempts(queue: Queue, job_id: str) -> list[str | None]:
    async with queue:
        return [attempt.outcome for attempt in await queue.attempts(job_id)]


async def test_a_job_of_bytes_hands_them_to_the_argument_named_payload(url: str) -> None:
    queue = Queue(url)

    @queue.job("raw", priority="high")
    async def raw(payload: bytes) -> list[int]:
        return list(payload)

    async with working(queue):
        job = await queue.submit("raw", b"\x00\xff")
        assert await job.result("60s") == [0, 255]
        assert (await queue.get(job.id)).priority == 1


async def test_an_unknown_type_is_left_alone_with_a_warning(client: Queue, floor: Floor) -> None:
    worker = await floor.start().working()
    job = await client.submit("nobody.knows", {"x": 1}, max_attempts=1)
    (warning, *_) = await until(lambda: worker.said("wait for a worker that knows their type"), "a warning")
    assert (warning["level"], warning["type"]) == ("warning", "nobody.knows")
    found = await client.get(job.id)
    assert (found.state, found.attempt) == (State.SCHEDULED, 0)


class OnAppQueue:
    """The queue of `tests.worker.app`, whose process handlers another process can import, on a test's database."""

    def __init__(self, url: str) -> None:
        self._url = url

    async def __aenter__(self) -> Queue:
        self._before = core_of(app.queue).exchange_backend(core_of(Queue(self._url))._backend)
        return app.queue

    async def __aexit__(self, *_: object) -> None:
        core_of(app.queue).exchange_backend(self._before)


@pytest.mark.parametrize(
    ("how", "code", "category", "state"),
    [
        ("permanent", "no_such_file", "permanent", State.FAILED),
        ("value_error", "ValueError", "temporary", State.DEAD_LETTER),
        ("exit", "SystemExit", "temporary", State.DEAD_LETTER),
        ("crash", "process_died", "system", State.DEAD_LETTER),
        ("unencodable", "bad_result", "permanent", State.FAILED),
        ("too_large", "bad_result", "permanent", State.FAILED),
    ],
)
async def test_whatever_a_process_handler_does_is_the_error_of_its_job(
    sqlite_url: str, how: str, code: str, category: str, state: State
) -> None:
    async with OnAppQueue(sqlite_url) as queue, working(queue):
        job = await queue.submit("misbehave", {"how": how}, max_attempts=2)
        ended = await job.wait("30s")
        again = await queue.submit("misbehave", {"how": "well"})
        assert await again.result("30s") != os.getpid()
    assert ended.error is not None
    assert (ended.state, ended.error.code, ended.error.category) == (state, code, category)


async def test_a_handler_that_a_process_cannot_import_fails_its_job_with_the_reason(sqlite_url: str) -> None:
    async with OnAppQueue(sqlite_url) as queue, working(queue):
        job = await queue.submit("not_importable")
        ended = await job.wait("30s")
        second = await (await queue.submit("not_importable")).wait("30s")
    assert (ended.state, second.state) == (State.FAILED, State.FAILED)
    assert ended.error is not None
    assert ended.error.code == "not_importable"
    assert "tests.worker.app:hidden" in ended.error.message


def test_a_process_handler_that_cannot_be_importable_is_refused_at_the_decorator(sqlite_url: str) -> None:
    queue = Queue(sqlite_url)

    def inside() -> None: ...

    with pytest.raises(euterpe.InvalidInput) as refused:
        queue.job("inside", process=True)(inside)
    assert refused.value.field == "process"
    assert "module's top" in str(refused.value)


async def test_what_a_process_handler_prints_does_not_disturb_it(sqlite_url: str) -> None:
    async with OnAppQueue(sqlite_url) as queue, working(queue):
        job = await queue.submit("misbehave", {"how": "prints"})
        assert await job.result("30s") is not None


async def test_a_context_outlives_its_attempt_without_doing_harm(url: str) -> None:
    """A handler that leaves a task behind, which reports after the job is over."""
    queue = Queue(url)
    refused: list[str] = []
    left_behind: list[asyncio.Task[None]] = []

    @queue.job("leaves")
    async def leaves(ctx: Context) -> str:
        async def later() -> None:
            await asyncio.sleep(0.05)
            try:
                await ctx.progress(99)
            except euterpe.StaleLease as error:
                refused.append(error.job_id)

        left_behind.append(asyncio.create_task(later()))
        return "done"

    async with working(queue):
        job = await queue.submit("leaves")
        await job.result("60s")
        await left_behind[0]
        assert (await queue.get(job.id)).progress is None
    assert refused == [job.id]
