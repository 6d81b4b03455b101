"""Housekeeping works in short steps beside the sweeps, and neither waits for the other."""

from __future__ import annotations

import asyncio
from itertools import count

import pytest

from euterpe.model.retention import TIDY_LIMIT, Chore, Swept
from euterpe.wakeups.local import LocalWakeups
from euterpe.worker import housekeeper
from euterpe.worker.housekeeper import FEWEST, Housekeeper
from euterpe.worker.sweeper import Sweeper
from tests.worker_units.test_sweeper import Recovering

NOTHING = Swept([], 0, 0, 0, 0, 0)


class Endless(Recovering):
    """Housekeeping that never comes to an end; due jobs are there at every look."""

    def __init__(self) -> None:
        super().__init__(NOTHING)
        self.promotions = count(1)
        self.often = asyncio.Event()
        self.under_way = asyncio.Event()

    async def promote(self) -> list[str]:
        if self.under_way.is_set() and next(self.promotions) == 20:
            self.often.set()
        return []

    async def tidy(self, chore: Chore, limit: int) -> int:
        self.under_way.set()
        await asyncio.Event().wait()
        return limit


async def test_due_jobs_do_not_wait_for_housekeeping(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(housekeeper, "TIDY_S", 0.01)
    sweeps = Endless()
    sweeping = asyncio.get_running_loop().create_task(Sweeper(sweeps, LocalWakeups(), interval_s=0.01).run())
    async with asyncio.timeout(30):
        await sweeps.under_way.wait()
        await sweeps.often.wait()
    sweeping.cancel()
    await asyncio.wait({sweeping})


class Heap(Recovering):
    """So many rows to remove of one kind; each step takes so long for each row."""

    def __init__(self, rows: int, row_s: float = 0.0, broken: Chore | None = None) -> None:
        super().__init__(NOTHING)
        self.rows = rows
        self.row_s = row_s
        self.broken = broken
        self.limits: list[int] = []
        self.asked: list[Chore] = []

    async def tidy(self, chore: Chore, limit: int) -> int:
        self.asked.append(chore)
        if chore is self.broken:
            raise ValueError("an error that nobody expected")
        if chore is not Chore.JOBS:
            return 0
        self.limits.append(limit)
        gone = min(limit, self.rows)
        self.rows -= gone
        await asyncio.sleep(gone * self.row_s)
        return gone


async def test_a_step_that_takes_long_makes_the_next_one_smaller() -> None:
    heap = Heap(rows=800, row_s=0.001)
    await Housekeeper(heap, None).tidy()
    assert heap.rows == 0
    assert heap.limits[0] == TIDY_LIMIT
    assert all(FEWEST <= limit < TIDY_LIMIT / 2 for limit in heap.limits[1:])


async def test_a_chore_that_fails_stops_no_other() -> None:
    heap = Heap(rows=1200, broken=Chore.IDEMPOTENCY_KEYS)
    await Housekeeper(heap, None).tidy()
    assert heap.rows == 0
    assert list(dict.fromkeys(heap.asked)) == list(Chore)


async def test_a_worker_that_stops_does_not_wait_for_the_rest() -> None:
    heap = Heap(rows=10**9, row_s=0.0001)
    housekeeping = Housekeeper(heap, None)
    tidying = asyncio.get_running_loop().create_task(housekeeping.tidy())
    async with asyncio.timeout(30):
        while not heap.limits:  # noqa: ASYNC110  # it is filled by the task
            await asyncio.sleep(0)
        housekeeping.stop()
        await tidying
    assert heap.rows > 0
