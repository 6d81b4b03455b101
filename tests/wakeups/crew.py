"""A worker on the streams transport: in this process, or as `python -m tests.wakeups.crew URL`, REDIS URL on stdin.

The process prints a line of JSON when it works and one for each job it starts. It polls so seldom that only a message
(or the sweep that sends one again) can explain a job that starts soon.
"""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import redis

from euterpe import Context, Queue
from euterpe.backends.engines import connect
from euterpe.queue.queue import core_of
from euterpe.stores.sql.reads.job_states import WaitingJobs
from euterpe.wakeups.redis_streams import StreamWakeups
from tests.patience import PATIENCE_S
from tests.sql_stores import sql
from tests.worker.inline import work_on

ROOT = Path(__file__).parents[2]
SELDOM = "10m"


def streams_queue(url: str, redis_url: str, *, visibility_s: float = 300.0, republish_s: float = 1.0) -> Queue:
    """A queue on this transport, with the transport's times set."""
    queue = Queue(url)
    backend = connect(url)
    jobs = WaitingJobs(sql(backend.store).engine)
    backend.wakeups = StreamWakeups(redis_url, jobs, visibility_s=visibility_s, republish_s=republish_s)
    core_of(queue).exchange_backend(backend)
    return queue


@asynccontextmanager
async def working(queue: Queue, **options: Any) -> AsyncIterator[list[dict[str, Any]]]:
    """A worker on this loop; yields the payloads of the jobs that it starts, as they start."""
    started: list[dict[str, Any]] = []

    @queue.job("note")
    async def note(ctx: Context, at: float = 0.0, name: str = "") -> None:
        started.append({"at": at, "name": name, "job_id": ctx.job_id, "started": time.time()})

    stop = asyncio.Event()
    options.setdefault("poll", SELDOM)
    options.setdefault("keeper", False)
    worker = asyncio.get_running_loop().create_task(work_on(queue, 10, stop=stop, **options))
    try:
        yield started
    finally:
        stop.set()
        await worker


async def until(true: Callable[[], bool | Awaitable[bool]], within_s: float = PATIENCE_S) -> None:
    """Wait for a condition; the test fails when it does not come."""
    async with asyncio.timeout(within_s):
        while True:
            answer = true()
            if answer if isinstance(answer, bool) else await answer:
                return
            await asyncio.sleep(0.01)


def is_drained(redis_url: str) -> bool:
    """No message in any stream, and none pending."""
    with redis.Redis.from_url(redis_url) as client:
        for name in client.scan_iter("euterpe:*"):
            if client.type(name) != b"stream":
                continue
            if client.xlen(name) or any(group["pending"] for group in client.xinfo_groups(name)):
                return False
    return True


def messages_in(redis_url: str, queue: str = "default", priority: int = 2) -> tuple[int, int]:
    """(messages, pending)"""
    name = f"euterpe:{queue}:{priority}"
    with redis.Redis.from_url(redis_url) as client:
        groups = client.xinfo_groups(name) if client.exists(name) else []
        pending = sum(group["pending"] for group in groups)
        return client.xlen(name), pending


class Crew:
    """A worker in another process, and what it said."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.said: list[dict[str, Any]] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.append(json.loads(line))

    @property
    def started(self) -> list[dict[str, Any]]:
        return [line for line in self.said if "job_id" in line]


@contextmanager
def crew_process(url: str, redis_url: str) -> Iterator[Crew]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.wakeups.crew", url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(redis_url + "\n")
    process.stdin.close()
    crew = Crew(process)
    try:
        yield crew
    finally:
        process.terminate()
        assert process.wait(30) == 0
        process.stdout.close()


async def main(url: str, redis_url: str) -> None:
    queue = streams_queue(url, redis_url)

    @queue.job("note")
    async def note(ctx: Context, at: float = 0.0, name: str = "") -> None:
        print(json.dumps({"job_id": ctx.job_id, "at": at, "name": name, "started": time.time()}), flush=True)

    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with queue:
        worker = asyncio.get_running_loop().create_task(queue.work(20, poll=SELDOM, stop=stop))
        with redis.Redis.from_url(redis_url) as client:
            await until(lambda: bool(client.exists("euterpe:default:4")))
        print(json.dumps({"ready": True}), flush=True)
        await worker


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.stdin.readline().strip()))
