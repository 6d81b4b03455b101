"""A worker has one lease keeper, whoever asks for it and when; none outlives `work()`; without one, leases hold too."""

from __future__ import annotations

import asyncio
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from euterpe.lease_keeper import COMMAND
from euterpe.queue.queue import Queue, core_of
from euterpe.runtime.shutdown import ShutdownDeadline
from euterpe.worker.attempts import RunningAttempts
from euterpe.worker.execution.environment import for_a_handler, for_a_lease_keeper
from euterpe.worker.heartbeat.keeper import KeeperProcess, LeaseKeeper, Reports
from tests.worker import app
from tests.worker.floor import is_alive, until
from tests.worker.inline import work_on
from tests.worker.test_bad_handlers import OnAppQueue


def keepers() -> list[int]:
    """The lease keepers of this process."""
    found = []
    for child in psutil.Process().children():
        try:
            if "euterpe.lease_keeper" in child.cmdline():
                found.append(child.pid)
        except psutil.Error:
            continue
    return found


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Every keeper process that was started, in order."""
    pids: list[int] = []
    start = asyncio.create_subprocess_exec

    async def noting(*command: Any, **options: Any) -> asyncio.subprocess.Process:
        child = await start(*command, **options)
        if "euterpe.lease_keeper" in command:
            pids.append(child.pid)
        return child

    monkeypatch.setattr(asyncio, "create_subprocess_exec", noting)
    return pids


def environment_of(pid: int) -> bytes:
    return Path(f"/proc/{pid}/environ").read_bytes()


def plain_queue(url: str) -> Queue:
    queue = Queue(url)

    @queue.job("plain")
    async def plain(n: int) -> int:
        await asyncio.sleep(0.001)
        return n

    return queue


async def test_two_who_ask_for_the_keeper_at_once_get_one(sqlite_url: str, started: list[int]) -> None:
    queue = plain_queue(sqlite_url)
    reports = Reports(lambda _: None, lambda _: None)
    async with queue:
        keeper = LeaseKeeper(KeeperProcess(COMMAND, sqlite_url), core_of(queue).store, 3, 60_000_000, reports, "w")
        await asyncio.gather(keeper.ensure_running(), keeper.ensure_running())
        assert len(started) == 1
        await keeper.close(ShutdownDeadline())
    assert keepers() == []


def test_a_keeper_that_was_killed_keeps_no_worker_from_ending(sqlite_url: str) -> None:
    """On uvloop, as workers run: its pipe to a process that is gone refuses to be written to."""
    uvloop = pytest.importorskip("uvloop", reason="uvloop is not for this platform")

    async def kill_and_close() -> None:
        queue = plain_queue(sqlite_url)
        reports = Reports(lambda _: None, lambda _: None)
        async with queue:
            keeper = LeaseKeeper(KeeperProcess(COMMAND, sqlite_url), core_of(queue).store, 3, 60_000_000, reports, "w")
            await keeper.ensure_running()
            child = keeper._child
            assert child is not None
            assert child.stdin is not None
            child.kill()
            await until(child.stdin.is_closing, "its pipe is closed")
            await keeper.close(ShutdownDeadline())

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(kill_and_close())


async def test_two_lanes_that_claim_at_once_start_one_keeper(sqlite_url: str, started: list[int]) -> None:
    queue = plain_queue(sqlite_url)
    async with queue:
        for _ in range(4):
            started.clear()
            jobs = await queue.submit_many([("plain", {"n": n}) for n in range(40)])
            stop = asyncio.Event()
            work = asyncio.create_task(queue.work(concurrency=10, stop=stop))
            for job in jobs:
                await job.result("20s")
            assert len(started) == len(keepers()) == 1
            stop.set()
            await work
            assert keepers() == []


@pytest.mark.parametrize("steps", range(0, 40, 3))
async def test_a_worker_cancelled_as_it_starts_leaves_no_keeper(
    sqlite_url: str, started: list[int], steps: int
) -> None:
    """With a short lease the keeper is started before the first claim; the cancel comes at any step of that."""
    queue = plain_queue(sqlite_url)
    async with queue:
        work = asyncio.create_task(queue.work(concurrency=2, lease="2s"))
        for _ in range(steps):
            await asyncio.sleep(0)
        work.cancel()
        await asyncio.wait({work})
    assert work.cancelled()
    assert keepers() == []
    assert not any(is_alive(pid) for pid in started)


async def test_a_worker_cancelled_twice_leaves_no_keeper(sqlite_url: str, started: list[int]) -> None:
    queue = plain_queue(sqlite_url)
    async with queue:
        work = asyncio.create_task(queue.work(concurrency=2, lease="2s"))
        await until(lambda: started, "the keeper is started")
        work.cancel()
        while not work.done():
            await asyncio.sleep(0.001)
            work.cancel()
    await until(lambda: not any(is_alive(pid) for pid in started), "the keeper is gone")


@contextmanager
def no_more_descriptors() -> Iterator[None]:
    """Within it this process can open nothing more."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = max(int(entry.name) for entry in Path("/proc/self/fd").iterdir())
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + 20, limits[1]))
    taken: list[int] = []
    try:
        with suppress(OSError):
            while True:
                taken.append(os.open("/dev/null", os.O_RDONLY))
        yield
    finally:
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.fixture
def scarce(started: list[int], monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """While it is set there is no descriptor for a keeper. The rest of the process keeps its own: SQLite, too, opens
    files when it must, and this is not about SQLite."""
    is_scarce = asyncio.Event()
    start = asyncio.create_subprocess_exec

    async def starting(*command: Any, **options: Any) -> asyncio.subprocess.Process:
        with no_more_descriptors() if is_scarce.is_set() else nullcontext():
            return await start(*command, **options)

    monkeypatch.setattr(asyncio, "create_subprocess_exec", starting)
    return is_scarce


async def test_without_a_descriptor_for_a_keeper_leases_are_renewed_and_timeouts_strike_and_it_is_tried_again(
    sqlite_url: str, scarce: asyncio.Event, started: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    queue = Queue(sqlite_url)
    gate, begun = asyncio.Event(), asyncio.Event()

    @queue.job("long")
    async def long() -> str:
        begun.set()
        await gate.wait()
        return "done"

    @queue.job("hangs", timeout="1500ms", max_attempts=1)
    async def hangs() -> None:
        await asyncio.Event().wait()

    async with queue:
        stop = asyncio.Event()
        job, hanging = await queue.submit("long"), await queue.submit("hangs")
        scarce.set()
        work = asyncio.create_task(queue.work(concurrency=4, lease="2s", stop=stop))
        await begun.wait()

        async def heartbeat_at() -> int | None:
            return (await core_of(queue).get(job.id)).heartbeat_at

        before: int = await until(heartbeat_at, "the job is claimed")

        async def renewed() -> bool:
            return (await heartbeat_at() or 0) > before

        await until(renewed, "the lease is renewed without a keeper")
        ended = await hanging.wait("20s")
        assert ended.error is not None
        assert ended.error.code == "timeout"
        assert keepers() == started == []
        assert caplog.text.count("the lease keeper cannot be started") == 1
        assert "Too many open files" in caplog.text
        scarce.clear()
        await until(lambda: len(keepers()) == 1, "the keeper is started when there are descriptors again")
        gate.set()
        assert await job.result("20s") == "done"
        assert (await queue.get(job.id)).attempt == 1
        stop.set()
        await work
    assert keepers() == []
    assert len(started) == 1


async def test_the_watch_over_running_jobs_survives_an_error(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Timeouts longer than ten seconds are kept by the watch alone."""
    looks = 0
    check_timeouts = RunningAttempts.check_timeouts

    def failing_once(attempts: RunningAttempts) -> None:
        nonlocal looks
        looks += 1
        if looks == 1:
            raise MemoryError
        check_timeouts(attempts)

    monkeypatch.setattr(RunningAttempts, "check_timeouts", failing_once)
    queue = plain_queue(sqlite_url)
    async with queue:
        stop = asyncio.Event()
        work = asyncio.create_task(work_on(queue, keeper=False, stop=stop))
        await until(lambda: looks >= 2, "the watch looks again")
        stop.set()
        await work
    assert "a look at the running jobs failed" in caplog.text


def test_the_processes_of_a_worker_inherit_no_keys_that_they_do_not_need() -> None:
    environ = {"PATH": "/bin", "EUTERPE_KEKS": "a:b", "DATABASE_URL": "postgresql://", "PGPASSWORD": "p"}
    assert for_a_handler(environ).keys() == {"PATH", "DATABASE_URL", "PGPASSWORD"}
    assert for_a_lease_keeper(environ).keys() == {"PATH", "PGPASSWORD"}


async def test_neither_the_keeper_nor_a_handlers_process_sees_the_sealing_keys(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EUTERPE_KEKS", "2026a:c2VjcmV0")
    monkeypatch.setenv("EUTERPE_ACTIVE_KEK", "2026a")
    async with OnAppQueue(sqlite_url) as queue:
        stop = asyncio.Event()
        work = asyncio.create_task(queue.work(lease="8s", stop=stop))
        async with queue:
            job = await queue.submit(app.environment_of_the_process.with_args())
            seen = await job.result("30s")
            (keeper,) = keepers()
            keepers_own = environment_of(keeper)
            stop.set()
            await work
    assert "PATH" in seen
    assert not {"EUTERPE_KEKS", "EUTERPE_ACTIVE_KEK"} & set(seen)
    assert b"PATH=" in keepers_own
    assert b"EUTERPE_KEKS" not in keepers_own
