"""Jobs that wait for an encoder of their worker: their clock stands still, and more urgent jobs go first."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from euterpe.model.priority import Priority
from euterpe.model.state import State
from euterpe.queue.handle import JobHandle
from euterpe.queue.queue import Queue, core_of
from euterpe.transcode.handler.encoders import Encoders
from euterpe.transcode.media.ffmpeg.tools import Tools
from euterpe.transcode.schema.request import JOB_TYPE
from euterpe.transcode.setup import Transcoding
from euterpe.worker import context
from euterpe.worker.context import Context
from tests.sql_stores import sql
from tests.transcode.service.conftest import put_source
from tests.transcode.service.studio import Studio, environ_for, studio_on
from tests.worker.floor import in_state, until
from tests.worker.inline import work_on


class Line:
    """A queue whose transcodes hold the one encoder of their worker until they are let go."""

    def __init__(self, url: str) -> None:
        self.queue = Queue(url)
        self.at_encoder: list[str] = []
        self.encoding: list[str] = []
        self.let_go = asyncio.Semaphore(0)
        self.may_end = asyncio.Event()
        self.may_end.set()
        self.encoders: Encoders

    async def submit(self, name: str, **options: Any) -> JobHandle[Any]:
        return await self.queue.submit(JOB_TYPE, {"name": name}, **options)

    def register(self) -> None:
        self.encoders = Encoders(1, sql(core_of(self.queue).store).engine)

        @self.queue.job(JOB_TYPE, worker_limit=self.encoders.worker_limit)
        async def encode(ctx: Context, name: str) -> None:
            self.at_encoder.append(name)
            async with self.encoders.turn(ctx):
                self.encoding.append(name)
                await self.let_go.acquire()
            await self.may_end.wait()

    async def seen(self, names: list[str], where: list[str]) -> None:
        async def all_there() -> bool | None:
            return where[: len(names)] == names or None

        await until(all_there, f"{names} are there")


@pytest.fixture(params=["sqlite", "postgres"])
async def line(request: pytest.FixtureRequest) -> AsyncIterator[Line]:
    line = Line(request.getfixturevalue("sqlite_url" if request.param == "sqlite" else "fresh_postgres_url"))
    async with line.queue:
        line.register()
        stop = asyncio.Event()
        working = asyncio.create_task(work_on(line.queue, 20, stop=stop, poll="50ms", sweep_interval_s=0.1))
        try:
            yield line
        finally:
            line.may_end.set()
            for _ in range(50):
                line.let_go.release()
            stop.set()
            await working


async def test_waiting_for_an_encoder_is_no_part_of_the_timeout(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context, "TELL_OF_WAIT_S", 0.1)
    first = await line.submit("first")
    await line.seen(["first"], line.encoding)
    waiting = await line.submit("waiting", timeout="1s")
    await line.seen(["first", "waiting"], line.at_encoder)
    row = await core_of(line.queue).get(waiting.id)
    began, started_at = time.monotonic(), row.started_at or 0

    async def waited_long() -> bool | None:
        return time.monotonic() > began + 2 or None

    await until(waited_long, "twice its timeout is over")
    now = await core_of(line.queue).get(waiting.id)
    assert now.state is State.RUNNING
    assert (now.started_at or 0) > started_at + 1_000_000  # The store knows it too.
    line.let_go.release()
    line.let_go.release()
    for job in (first, waiting):
        done = await in_state(line.queue, job, State.COMPLETED)
        assert done.attempt_count == 1


async def test_the_work_itself_is_held_to_the_timeout_after_a_wait(line: Line) -> None:
    await line.submit("first")
    await line.seen(["first"], line.encoding)
    late = await line.submit("late", timeout="1s", max_attempts=1)
    await line.seen(["first", "late"], line.at_encoder)
    line.let_go.release()
    await line.seen(["first", "late"], line.encoding)
    ended = await in_state(line.queue, late, State.DEAD_LETTER)
    assert ended.error is not None
    assert "timeout" in ended.error


async def test_a_more_urgent_job_gets_the_encoder_before_one_that_waits_for_it(line: Line) -> None:
    await line.submit("first")
    await line.seen(["first"], line.encoding)
    waiting = await line.submit("waiting")
    await line.seen(["first", "waiting"], line.at_encoder)
    await line.submit("later")
    urgent = await line.submit("urgent", priority=Priority.CRITICAL)
    line.may_end.clear()  # The first one keeps its slot: nothing but the turn that is given up makes room.
    line.let_go.release()
    await line.seen(["first", "urgent"], line.encoding)
    line.may_end.set()
    line.let_go.release()
    await in_state(line.queue, urgent, State.COMPLETED)
    line.let_go.release()
    line.let_go.release()
    done = await in_state(line.queue, waiting, State.COMPLETED)
    assert (done.attempt_count, done.release_count) == (1, 1)  # The turn that it gave up is refunded.


async def test_a_worker_claims_one_transcode_more_than_it_can_encode(line: Line) -> None:
    jobs = [await line.submit(str(n)) for n in range(6)]
    await line.seen(["0", "1"], line.at_encoder)
    await line.seen(["0"], line.encoding)
    rows = [await core_of(line.queue).get(job.id) for job in jobs]
    assert [row.state for row in rows] == [State.RUNNING] * 2 + [State.SCHEDULED] * 4


async def test_24_transcodes_on_two_workers_succeed_and_keep_both_busy(
    sqlite_url: str, tmp_path: Path, tools: Tools, tone: Path
) -> None:
    """Each worker has one encoder, and its files are those of two jobs at most."""
    async with studio_on(sqlite_url, tmp_path, tools, change=lambda said: replace(said, concurrency=1)) as studio:
        put_source(studio, tone)
        other = Queue(sqlite_url)
        async with other, Transcoding(studio.config, other, environ_for(sqlite_url)) as transcoding:
            transcoding.register(tools)
            jobs = [await studio.accepted(_into(studio, n)) for n in range(24)]
            stop = asyncio.Event()
            working = asyncio.create_task(work_on(other, 100, stop=stop, poll="50ms", lease="5s"))
            studio.start_worker()
            most = 0
            for job in jobs:
                while not (document := await studio.status(job))["terminal"]:  # it is polled
                    most = max(most, len(list(studio.work_dir.glob("*.lock"))))
                    await asyncio.sleep(0.02)
                assert document["status"] == "succeeded", document
            stop.set()
            await working
        rows = [(await studio.queue.attempts(job))[-1] for job in jobs]
    assert most <= 4
    by_worker = [row.worker_id for row in rows]
    assert len(set(by_worker)) == 2
    assert min(by_worker.count(worker) for worker in set(by_worker)) >= 6


def _into(studio: Studio, n: int) -> dict[str, Any]:
    return studio.body(destination={"type": "local", "prefix": f"out/{n}/"})
