"""What a user reads of a job: decoded values, aware times, errors as objects, and handles that follow and steer it."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

import euterpe
from euterpe.model.errors import EuterpeError, IllegalTransition, JobFailed, PermanentError
from euterpe.model.state import State
from euterpe.queue.job import Progress, job_of
from euterpe.queue.queue import Queue, core_of
from tests.worker.inline import AT_ONCE, working

TIMES = ("created_at", "updated_at", "run_at", "scheduled_at", "started_at", "completed_at", "expires_at")


async def test_a_completed_job_is_a_document_of_decoded_values_and_aware_times(queue: Queue) -> None:
    @queue.job("render", timeout="10m")
    async def render(ctx: euterpe.Context, day: datetime, small: bool = False) -> dict[str, int]:
        await ctx.progress(40, "halfway")
        await ctx.checkpoint({"page": 3})
        return {"pages": 7}

    before = datetime.now(UTC) - timedelta(minutes=5)
    async with working(queue):
        call = render.with_args(day=datetime(2026, 1, 7, tzinfo=UTC))
        job = await queue.submit(call, tags={"team": "a"}, priority="high", correlation_id="c")
        found = await job.wait("20s")
    assert found == await queue.get(job.id)
    assert (found.id, found.type, found.state, found.is_ended) == (job.id, "render", State.COMPLETED, True)
    assert found.payload == {"day": "2026-01-07T00:00:00Z"}
    assert (found.result, found.checkpoint, found.tags) == ({"pages": 7}, {"page": 3}, {"team": "a"})
    assert found.progress == Progress(40.0, "halfway")
    assert (found.priority, found.attempt, found.error) == (euterpe.Priority.HIGH, 1, None)
    assert found.timeout == timedelta(minutes=10)
    times = [getattr(found, name) for name in TIMES]
    assert all(at.tzinfo is UTC and at > before for at in times), times
    assert found.created_at == job.created_at
    assert found.created_at <= found.started_at <= found.completed_at < found.expires_at  # type: ignore[operator]


async def test_a_failed_job_tells_its_error_as_an_object(queue: Queue) -> None:
    @queue.job("fails")
    async def fails() -> None:
        raise PermanentError("the report is gone", code="gone")

    async with working(queue):
        job = await fails.submit()
        with pytest.raises(JobFailed) as failed:
            await job.result("20s")
        found = await job.refresh()
        (attempt,) = await queue.attempts(job.id)
    assert failed.value.error == found.error == attempt.error
    assert found.error is not None
    assert (found.error.code, found.error.category, found.error.message) == (
        "gone",
        euterpe.Category.PERMANENT,
        "the report is gone",
    )
    assert (found.error.attempt, found.error.retryable) == (1, False)
    assert "in fails" in (found.error.stack or "")
    assert (attempt.id, attempt.job_id, attempt.number) == (f"{job.id}:1", job.id, 1)
    assert attempt.ended_at is not None
    assert attempt.started_at.tzinfo is attempt.ended_at.tzinfo is UTC


async def test_bytes_stay_bytes(queue: Queue) -> None:
    job = await queue.submit("raw", b"\x00\xff")
    assert (await queue.get(job.id)).payload == b"\x00\xff"


async def test_what_a_hand_has_spoilt_in_a_row_does_not_hide_the_job(sqlite_url: str) -> None:
    async with Queue(sqlite_url) as queue:
        job = await queue.submit("t", {"x": 1})
        row = await core_of(queue).get(job.id)
    spoilt = msgspec.structs.replace(row, payload=b"{no json", result=b"\xff", tags_json="[1]", expires_at=2**62)
    spoilt = msgspec.structs.replace(spoilt, error='{"code": 7}', checkpoint=b"j{")
    found = job_of(spoilt)
    assert (found.payload, found.result, found.tags, found.checkpoint) == (b"{no json", b"\xff", {}, b"{")
    assert found.error is not None
    assert found.error.code == "unprocessable_row"
    assert found.expires_at.year == 9999


async def test_pages_and_counts_are_documents_too(queue: Queue) -> None:
    await queue.submit_many([("t", {"n": n}) for n in range(3)])
    page = await queue.search(type="t", limit=2)
    rest = await queue.search(type="t", limit=2, cursor=page.cursor)
    assert [job.payload["n"] for job in [*page.jobs, *rest.jobs]] == [2, 1, 0]
    assert rest.cursor is None
    stats = await queue.stats()
    assert stats.by_type == {"t": {"scheduled": 3}}
    assert timedelta(0) <= stats.oldest_age["default"] < timedelta(minutes=5)


async def test_an_update_answers_with_the_job_and_refuses_what_cannot_be_changed(queue: Queue) -> None:
    job = await queue.submit("t", tags={"team": "a"}, correlation_id="c")
    changed = await queue.update(job.id, priority="low", tags={"team": "b"})
    assert (changed.priority, changed.tags, changed.correlation_id) == (euterpe.Priority.LOW, {"team": "b"}, "c")
    assert (await queue.update(job.id, correlation_id=None)).correlation_id is None
    wrong: Any = {"payload": {}}
    with pytest.raises(euterpe.InvalidInput) as refused:
        await queue.update(job.id, **wrong)
    assert refused.value.field == "payload"


async def test_a_handle_follows_and_steers_its_job(queue: Queue) -> None:
    begun, told = asyncio.Event(), asyncio.Event()

    @queue.job("slow", backoff=AT_ONCE)
    async def slow(ctx: euterpe.Context) -> str:
        await ctx.progress(25, "a quarter")
        begun.set()
        await told.wait()
        return "done"

    async with working(queue):
        job = await slow.submit()
        assert await job.progress() is None or begun.is_set()
        await begun.wait()
        assert await job.progress() == Progress(25.0, "a quarter")
        assert ((await job.refresh()).state, job.state) == (State.RUNNING, State.RUNNING)
        with pytest.raises(IllegalTransition):
            await job.retry()
        assert await job.cancel(force=True) is State.CANCELLED is job.state
        again = await job.retry()
        told.set()
        assert await again.result("20s") == "done"
        assert (again.id != job.id, again.state) == (True, State.COMPLETED)
        assert (await again.refresh()).replay_of == job.id


async def test_a_notebook_opens_and_closes_a_queue_as_often_as_it_likes(url: str) -> None:
    queue = Queue(url)
    await queue.close()
    assert await queue.open() is queue
    await queue.open()  # the cell is run again
    job = await queue.submit("t")
    async with queue:
        assert (await queue.get(job.id)).state is State.SCHEDULED
    assert (await queue.get(job.id)).state is State.SCHEDULED, "a block inside does not close it"
    await queue.close()
    await queue.close()
    with pytest.raises(EuterpeError):
        await queue.get(job.id)
    await queue.open()
    assert (await queue.get(job.id)).id == job.id
    await queue.close()
