"""No thread, no descriptor: the worker's trouble costs no job an attempt, and an order to stop is heard at any time."""

from __future__ import annotations

import asyncio
import errno
import logging
import sys
import threading
import time
from typing import Any

import pytest

from euterpe.model.state import State
from euterpe.queue.queue import Queue, core_of
from euterpe.worker.heartbeat.keeper import KeeperProcess
from euterpe.worker.loop import WorkerLoop
from euterpe.worker.settings import WorkerSettings
from tests.worker.conftest import ON_SQLITE_ALONE
from tests.worker.floor import in_state, until
from tests.worker.inline import working
from tests.worker.test_bad_handlers import OnAppQueue

NEVER_READY = (sys.executable, "-c", "import sys; sys.stdin.read()")


@ON_SQLITE_ALONE
async def test_an_order_to_stop_is_heard_while_the_worker_waits_for_its_keeper(url: str) -> None:
    async with Queue(url) as queue:
        core = core_of(queue)
        settings = WorkerSettings(worker_id="w:1", lease_ttl_us=2_000_000, grace_s=3.0)
        worker = WorkerLoop(
            core.store, core.handlers, settings, wakeups=core.wakeups, keeper=KeeperProcess(NEVER_READY, url)
        )
        running = asyncio.create_task(worker.run())
        await until(lambda: worker._keeper._child is not None, "the keeper is started")  # type: ignore[union-attr]
        began = time.monotonic()
        worker.stop()
        await running
        if time.monotonic() - began > 15:
            raise TimeoutError("it waited for its keeper")


async def test_a_job_that_gets_no_thread_goes_back_uncharged_and_the_worker_says_so_once(
    url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    queue = Queue(url)

    @queue.job("plain")
    def plain() -> str:
        return "done"

    start, refused = threading.Thread.start, threading.Event()

    def refuse(thread: threading.Thread) -> None:
        if thread.name.startswith("euterpe-handler") and not refused.is_set():
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    caplog.set_level(logging.INFO)
    async with queue:
        jobs = [await queue.submit("plain", max_attempts=1) for _ in range(3)]
        async with working(queue, poll="100ms", webhooks=False):
            for job in jobs:
                row = await in_state(queue, job, State.RETRYING)
                assert (row.attempt_count, (row.error_document or {})["code"]) == (0, "handler_not_started")
            refused.set()
            for job in jobs:
                assert (await in_state(queue, job, State.COMPLETED)).attempt_count == 1
    assert sum("no thread or process for a handler" in record.getMessage() for record in caplog.records) == 1


async def test_a_job_that_gets_no_process_goes_back_uncharged(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    start = asyncio.create_subprocess_exec
    refused: list[str] = []

    async def refuse(*command: str, **options: Any) -> asyncio.subprocess.Process:
        if "euterpe.worker.execution.child" in command and not refused:
            refused.extend(command)
            raise OSError(errno.EMFILE, "Too many open files")
        return await start(*command, **options)

    monkeypatch.setattr(asyncio, "create_subprocess_exec", refuse)
    async with OnAppQueue(sqlite_url) as queue, working(queue):
        job = await queue.submit("misbehave", {"how": "well"}, max_attempts=1)
        assert (await in_state(queue, job, State.COMPLETED)).attempt_count == 1
    assert refused
