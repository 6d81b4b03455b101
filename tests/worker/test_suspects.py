"""A job that takes its worker down: it alone becomes a dead letter, after its attempts, and its neighbours complete."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from euterpe.model.state import State
from euterpe.queue.handle import JobHandle
from euterpe.queue.queue import Queue, core_of
from tests.faults.recorder import run
from tests.worker.floor import LOOK_S, Floor, in_state, until
from tests.worker.inline import working

WITHIN_S = 100.0


@asynccontextmanager
async def kept_working(floor: Floor, workers: int) -> AsyncIterator[None]:
    """As a supervisor keeps them: whatever dies is started again."""
    usual: dict[str, Any] = {"lease": "2s", "sweep_interval_s": 0.1, "concurrency": 50}

    async def keep() -> None:
        alive = [floor.start(**usual) for _ in range(workers)]
        while True:
            for place, worker in enumerate(alive):
                if worker.process.poll() is not None:
                    alive[place] = floor.start(**usual)
            await asyncio.sleep(LOOK_S)

    keeping = asyncio.get_running_loop().create_task(keep())
    try:
        yield
    finally:
        keeping.cancel()
        with suppress(asyncio.CancelledError):
            await keeping


async def all_completed(client: Queue, jobs: Sequence[JobHandle[Any]]) -> None:
    for job in jobs:
        await in_state(client, job, State.COMPLETED, within_s=WITHIN_S)


async def dead_after(client: Queue, floor: Floor, job: JobHandle[Any], attempts: int) -> None:
    row = await in_state(client, job, State.DEAD_LETTER, within_s=WITHIN_S)
    assert row.attempt_count == attempts
    assert len(floor.journal("begun", job)) == attempts, "it began in each of its attempts, and no more often"


async def neighbours_of(client: Queue, count: int, kind: str) -> list[JobHandle[Any]]:
    if kind == "quick":
        return [await client.submit("quick", {"value": n}, max_attempts=3) for n in range(count)]
    return [await client.submit("naps", {"seconds": 0.3}, max_attempts=3) for _ in range(count)]


@pytest.mark.parametrize(("kind", "workers"), [("quick", 1), ("naps", 1), ("naps", 2)])
async def test_a_job_that_kills_its_worker_dead_letters_none_of_twenty_neighbours(
    client: Queue, floor: Floor, kind: str, workers: int
) -> None:
    before = await neighbours_of(client, 10, kind)
    guilty = await client.submit("dies_soon", max_attempts=3)
    after = await neighbours_of(client, 10, kind)
    async with kept_working(floor, workers):
        await dead_after(client, floor, guilty, 3)
        await all_completed(client, before + after)


async def test_two_jobs_that_kill_their_workers_dead_letter_none_of_forty_neighbours(
    client: Queue, floor: Floor
) -> None:
    """The neighbours come in bulk: one claim brings many of them."""
    napping = [("naps", {"seconds": 0.3})] * 20
    neighbours = await client.submit_many(napping, max_attempts=3)
    guilty = [await client.submit("dies_soon", max_attempts=3) for _ in range(2)]
    neighbours += await client.submit_many(napping, max_attempts=3)
    async with kept_working(floor, 1):
        for job in guilty:
            await dead_after(client, floor, job, 3)
        await all_completed(client, neighbours)


async def test_neighbours_that_keep_coming_are_not_dead_lettered_either(client: Queue, floor: Floor) -> None:
    guilty = await client.submit("dies_soon", max_attempts=3)
    neighbours: list[JobHandle[Any]] = []

    async def has_ended() -> bool:
        neighbours.append(await client.submit("naps", {"seconds": 0.3}, max_attempts=3))
        return (await core_of(client).get(guilty.id)).state is State.DEAD_LETTER

    async with kept_working(floor, 1):
        await until(has_ended, "the guilty one becomes a dead letter", WITHIN_S)
        await dead_after(client, floor, guilty, 3)
        await all_completed(client, neighbours)


async def test_jobs_with_two_attempts_run_alone_after_their_first_loss(client: Queue, floor: Floor) -> None:
    neighbours = [await client.submit("naps", {"seconds": 0.2}, max_attempts=2) for _ in range(8)]
    guilty = await client.submit("dies_soon", max_attempts=2)
    async with kept_working(floor, 1):
        await dead_after(client, floor, guilty, 2)
        await all_completed(client, neighbours)


async def test_suspects_that_lost_two_workers_run_one_at_a_time_in_a_worker(url: str) -> None:
    queue = Queue(url)
    at_once: list[int] = []
    running = 0

    @queue.job("suspicious")
    async def suspicious() -> None:
        nonlocal running
        running += 1
        at_once.append(running)
        await asyncio.sleep(0.05)
        running -= 1

    async with queue:
        jobs = [await queue.submit("suspicious", max_attempts=5) for _ in range(3)]
        lost = """error = '{"code":"lost_lease","lost_attempts":"2"}', attempt_count = 2, claim_version = 2"""
        await asyncio.to_thread(run, url, f"UPDATE inbox_jobs SET {lost}")
        async with working(queue, poll="100ms", webhooks=False):
            for job in jobs:
                assert (await in_state(queue, job, State.COMPLETED)).attempt_count == 3
    assert at_once == [1, 1, 1]
