"""`euterpe.testing`: a user's submits and handlers, tested in a line each and without a server."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from euterpe import testing
from euterpe.model.errors import EuterpeError, InvalidInput, JobFailed, PermanentError, TemporaryError
from euterpe.model.state import State
from euterpe.queue.job import Progress
from euterpe.queue.queue import Queue, core_of
from euterpe.worker.context import Context
from tests.patience import in_time

app = Queue("postgresql://nobody@127.0.0.1:1/never")
"""A user's queue, on a server that a test must never need."""
sent: list[str] = []


@app.job("mail.welcome", backoff={"strategy": "constant", "initial": "10m"})
async def welcome(ctx: Context, to: str, day: date | None = None) -> str:
    if to.startswith("slow@") and ctx.attempt < 3:
        raise TemporaryError("the mail server is busy")
    if to.startswith("bad@"):
        raise PermanentError("no such address", code="no_such_address")
    await ctx.progress(50)
    sent.append(f"{ctx.attempt}:{to}")
    return to


@app.job("mail.report", delay="1d", queue="reports")
def report(n: int) -> int:
    return n * 2


@app.job("crunch", process=True)
def crunch(n: int) -> int:
    return sum(range(n))


@app.job("parent")
async def parent(ctx: Context, children: int) -> list[str]:
    return [await ctx.spawn(welcome.with_args(to=f"{n}@example.org")) for n in range(children)]


@pytest.fixture(autouse=True)
def _empty() -> None:
    sent.clear()


async def test_a_submit_is_asserted_in_a_line() -> None:
    async with testing.queue(app) as queue:
        assert queue is app
        job = await welcome.options(priority="high", tags={"a": "b"}).submit(to="ada@example.org", day=date(2026, 1, 7))
        found = testing.assert_submitted(app, "mail.welcome", to="ada@example.org")
        assert (found.id, found.priority, found.tags, found.state) == (job.id, 1, {"a": "b"}, State.SCHEDULED)
        assert testing.assert_submitted(app, welcome, day=date(2026, 1, 7)).id == job.id
        testing.assert_not_submitted(app, "mail.report")
        testing.assert_not_submitted(app, welcome, to="bob@example.org")
        assert len(testing.submitted(app)) == 1


async def test_a_missing_submit_says_what_was_submitted_instead() -> None:
    async with testing.queue(app):
        with pytest.raises(AssertionError, match="nothing was"):
            testing.assert_submitted(app, welcome)
        await welcome.submit(to="ada@example.org")
        with pytest.raises(AssertionError) as missing:
            testing.assert_submitted(app, welcome, to="bob@example.org")
        with pytest.raises(AssertionError, match="1 jobs"):
            testing.assert_not_submitted(app)
    assert "no job mail.welcome(to='bob@example.org') was submitted" in str(missing.value)
    assert 'mail.welcome {"to":"ada@example.org"} (scheduled)' in str(missing.value)


async def test_drain_runs_everything_and_follows_retries_and_delays_without_waiting() -> None:
    started = time.monotonic()
    async with testing.queue(app, at=datetime(2026, 1, 7, tzinfo=UTC)):
        slow = await welcome.submit(to="slow@example.org")
        later = await report.submit(n=21)
        jobs = await testing.drain(app)
        assert testing.clock(app).now >= datetime(2026, 1, 8, tzinfo=UTC)
        assert await slow.result() == "slow@example.org"
        assert await later.result() == 42
        ended = await app.get(slow.id)
    assert [(job.type, job.state) for job in jobs] == [
        ("mail.welcome", State.RETRYING),
        ("mail.welcome", State.RETRYING),
        ("mail.welcome", State.COMPLETED),
        ("mail.report", State.COMPLETED),
    ]
    assert (ended.attempt, ended.progress) == (3, Progress(50.0))
    assert sent == ["3:slow@example.org"]
    in_time(time.monotonic() - started, 20)


async def test_drain_runs_children_workflows_and_process_handlers() -> None:
    async with testing.queue(app):
        async with app.workflow() as flow:
            first = flow.add(parent, children=3)
            last = flow.add(crunch, n=10, after=[first])
        jobs = await testing.drain(app, strict=True)
        assert await last.result() == 45
    assert len(jobs) == 5
    assert sorted(sent) == [f"1:{n}@example.org" for n in range(3)]


async def test_a_strict_drain_raises_the_first_bad_end() -> None:
    async with testing.queue(app):
        bad = await welcome.submit(to="bad@example.org")
        with pytest.raises(JobFailed) as failed:
            await testing.drain(app, strict=True)
        assert (failed.value.job_id, failed.value.state) == (bad.id, State.FAILED)
    async with testing.queue(app):
        await welcome.submit(to="bad@example.org")
        (job,) = await testing.drain(app)
        assert job.error is not None
        assert job.error.code == "no_such_address"


async def test_drain_leaves_unknown_and_paused_types_and_gives_up_on_a_job_without_end() -> None:
    async with testing.queue(app):
        unknown = await app.submit("nobody.knows")
        await app.pause(type="mail.welcome")
        paused = await welcome.submit(to="ada@example.org")
        assert await testing.drain(app) == []
        assert [(await app.get(job.id)).state for job in (unknown, paused)] == [State.SCHEDULED] * 2

    endless = Queue("sqlite:///:memory:")

    @endless.job("again")
    async def again(ctx: Context) -> None:
        await ctx.spawn("again")

    async with testing.queue(endless):
        await again.submit()
        with pytest.raises(AssertionError, match="spawn itself"):
            await testing.drain(endless, limit=5)


async def test_time_stands_still_until_it_is_moved() -> None:
    async with testing.queue(app, at=datetime(2026, 1, 7, 12, tzinfo=UTC)):
        clock = testing.clock(app)
        job = await report.submit(n=1)
        due = testing.assert_submitted(app, report)
        assert due.run_at == clock.now + timedelta(days=1)
        assert due.state is State.DELAYED
        clock.advance("23h59m")
        await core_of(app).store.sweeps.urgent()
        assert (await app.get(job.id)).state is State.DELAYED
        clock.advance(timedelta(minutes=1))
        await core_of(app).store.sweeps.urgent()
        assert (await app.get(job.id)).state is State.SCHEDULED
        assert clock.now == datetime(2026, 1, 8, 12, tzinfo=UTC)


async def test_a_handler_runs_in_a_line_with_a_real_context() -> None:
    assert await testing.run(welcome, to="ada@example.org") == "ada@example.org"
    assert await testing.run(report, n=4) == 8
    assert await testing.run(crunch.with_args(5)) == 10
    assert sent == ["1:ada@example.org"]


async def test_what_a_handler_raises_is_raised_in_the_test() -> None:
    with pytest.raises(PermanentError, match="no such address"):
        await testing.run(welcome, to="bad@example.org")
    with pytest.raises(InvalidInput) as refused:
        await testing.run(welcome, to=7)  # type: ignore[call-overload]  # the mistake under test
    assert refused.value.field == "to"

    @app.job("returns.nonsense")
    async def nonsense() -> Any:
        return object()

    with pytest.raises(Exception, match="JSON cannot carry"):
        await testing.run(nonsense)


async def test_a_handler_run_on_a_queue_under_test_leaves_its_traces() -> None:
    async with testing.queue(app):
        ids = await testing.run(parent, children=2)
        assert [job.id for job in testing.submitted(app, welcome)] == ids
        with pytest.raises(PermanentError):
            await testing.run(welcome, to="bad@example.org")
        await testing.drain(app, strict=True)
        assert (await app.stats()).by_state == {"completed": 3, "cancelled": 1}


async def test_a_queue_is_as_it_was_after_the_test(tmp_path: Path) -> None:
    mine = Queue(f"sqlite:///{tmp_path}/jobs.db")
    async with mine:
        await mine.submit("real")
    async with testing.queue(mine):
        assert (await mine.stats()).by_state == {}
        await mine.submit("test")
    async with mine:
        assert [job.type for job in (await mine.search()).jobs] == ["real"]


async def test_a_queue_that_is_open_or_not_under_test_is_refused(tmp_path: Path) -> None:
    mine = Queue(f"sqlite:///{tmp_path}/jobs.db")
    with pytest.raises(EuterpeError, match="not under test"):
        testing.assert_submitted(mine, "any.type")
    with pytest.raises(EuterpeError, match="not under test"):
        await testing.drain(mine)
    async with mine:
        with pytest.raises(EuterpeError, match="is open"):
            async with testing.queue(mine):
                pass


async def test_results_can_be_awaited_while_another_task_drains() -> None:
    async with testing.queue(app):
        job = await welcome.submit(to="ada@example.org")
        answer, _ = await asyncio.gather(job.result("20s"), testing.drain(app))
        assert answer == "ada@example.org"


def test_sync_code_is_tested_without_an_event_loop() -> None:
    def sign_up(address: str) -> str:
        return app.sync.submit(welcome.with_args(to=address)).id

    with testing.sync_queue(app) as queue:
        job_id = sign_up("ada@example.org")
        assert testing.assert_submitted(app, welcome, to="ada@example.org").id == job_id
        queue.sync.run(testing.drain(queue))
        assert queue.sync.get(job_id).state is State.COMPLETED
    assert sent == ["1:ada@example.org"]


def test_plain_test_functions_may_use_asyncio_run() -> None:
    async def scenario() -> str:
        async with testing.queue(app):
            job = await welcome.submit(to="ada@example.org")
            await testing.drain(app)
            return await job.result()

    assert asyncio.run(scenario()) == "ada@example.org"
