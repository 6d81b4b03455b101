"""Redis is killed, emptied and restarted in the middle of traffic: nothing is lost, and latency recovers."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Iterator

import pytest
import redis

from euterpe import Queue
from euterpe.model.state import State
from tests.patience import in_time
from tests.servers import RedisServer
from tests.wakeups.crew import Crew, crew_process, is_drained, streams_queue, until


@pytest.fixture
def server() -> Iterator[RedisServer]:
    """One of this test's own, to be killed."""
    with RedisServer() as running:
        yield running


async def submit_steadily(queue: Queue, count: int, at_third: object = None) -> list[str]:
    """Submits go on as if nothing happened; each must return at once."""
    ids = []
    for i in range(count):
        if i == count // 3 and callable(at_third):
            await asyncio.to_thread(at_third)
        began = time.monotonic()
        ids.append((await queue.submit("note", {"at": time.time(), "name": str(i)})).id)
        in_time(time.monotonic() - began, 5)
        await asyncio.sleep(0.01)
    return ids


async def latency_ms(queue: Queue, crew: Crew) -> float:
    """Of one job, now."""
    job = await queue.submit("note", {"at": time.time(), "name": "probe"})
    await until(lambda: any(line["job_id"] == job.id for line in crew.started))
    (line,) = [line for line in crew.started if line["job_id"] == job.id]
    return float(line["started"] - line["at"]) * 1000


async def assert_all_ran_once(queue: Queue, crew: Crew, ids: list[str]) -> None:
    await until(lambda: {line["job_id"] for line in crew.started} >= set(ids), within_s=60)
    assert sorted(line["job_id"] for line in crew.started if line["job_id"] in ids) == sorted(ids)
    await until(lambda: _completed(queue, ids[-1]))


async def _completed(queue: Queue, job_id: str) -> bool:
    return (await queue.get(job_id)).state is State.COMPLETED


async def test_a_redis_killed_in_the_middle_loses_no_job_and_latency_recovers(
    server: RedisServer, sqlite_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async with streams_queue(sqlite_url, server.url) as queue:
        with crew_process(sqlite_url, server.url) as crew:
            await until(lambda: bool(crew.said))
            before = await latency_ms(queue, crew)
            ids = await submit_steadily(queue, 120, at_third=lambda: server.stop(immediate=True))
            await asyncio.to_thread(server.start)
            await assert_all_ran_once(queue, crew, ids)
            # Back, empty: groups are made again and messages flow.
            await latency_ms(queue, crew)
            after = await latency_ms(queue, crew)
            await until(lambda: is_drained(server.url))
    with capsys.disabled():
        print(f"\n  submit to start: {before:.1f} ms before Redis was killed, {after:.1f} ms after it came back")
    in_time(after / 1000, 2)


async def test_flushall_in_the_middle_loses_no_job_and_latency_recovers(server: RedisServer, sqlite_url: str) -> None:
    async with streams_queue(sqlite_url, server.url) as queue:
        with crew_process(sqlite_url, server.url) as crew:
            await until(lambda: bool(crew.said))
            with redis.Redis.from_url(server.url) as client:
                ids = await submit_steadily(queue, 60, at_third=client.flushall)
                await assert_all_ran_once(queue, crew, ids)
                client.flushall()
                client.flushall()
            await latency_ms(queue, crew)
            assert await latency_ms(queue, crew) < 2_000
            await until(lambda: is_drained(server.url))


async def test_a_frozen_redis_delays_no_submit(server: RedisServer, sqlite_url: str) -> None:
    async with streams_queue(sqlite_url, server.url) as queue:
        os.kill(server.pid, signal.SIGSTOP)
        try:
            async with asyncio.timeout(60):
                for _ in range(50):
                    await queue.submit("note", {})
        finally:
            os.kill(server.pid, signal.SIGCONT)
