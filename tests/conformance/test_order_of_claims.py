"""The order of claims with several claimers, with both lanes of a worker, and with bulk submits beside lone ones."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

import pytest

from euterpe.model.claims.exchange import ClaimRequest, Report
from euterpe.model.claims.outcome import Success
from euterpe.model.submitting.submission import Submission
from euterpe.ports import Claims
from euterpe.stores.sql.store import SqlStore
from euterpe.wakeups.local import LocalWakeups
from euterpe.worker.handling.handlers import Handlers, handler_of
from euterpe.worker.loop import WorkerLoop
from euterpe.worker.settings import WorkerSettings
from tests.conformance.claim_order import ClaimOrder
from tests.conformance.engines import Opened
from tests.patience import PATIENCE_S
from tests.worker.floor import until
from tests.worker.pacing import Eager

JOBS = 120
PRIORITIES = (0, 2, 4)
Submit = Callable[[SqlStore, ClaimOrder, Random], Awaitable[None]]


def a_job(chance: Random) -> Submission:
    return Submission(type="work", payload=b"{}", priority=chance.choice(PRIORITIES))


async def lone(store: SqlStore, order: ClaimOrder, chance: Random, jobs: int = JOBS) -> None:
    for _ in range(jobs):
        order.note_stored([(await store.submit(a_job(chance))).job_id])


async def bulk(store: SqlStore, order: ClaimOrder, chance: Random, jobs: int = JOBS) -> None:
    """Batches of one priority each, and batches of several."""
    for size in (jobs // 6,) * 3:
        alike = a_job(chance)
        order.note_stored([found.job_id for found in await store.submit_many([alike] * size)])
        mixed = [a_job(chance) for _ in range(size)]
        order.note_stored([found.job_id for found in await store.submit_many(mixed)])


async def bulk_beside_lone(store: SqlStore, order: ClaimOrder, chance: Random) -> None:
    for _ in range(2):
        await lone(store, order, chance, JOBS // 4)
        await bulk(store, order, chance, JOBS // 4)


async def work_off(claims: Claims, worker_id: str, order: ClaimOrder, chance: Random) -> None:
    """Claim and complete until all is claimed, a few or many at once."""
    finished: list[Report] = []
    while len(order.claimed) < len(order.stored):
        request = ClaimRequest(worker_id=worker_id, limit=chance.randint(1, 12))
        _, found = await claims.exchange(finished, request)
        finished = [Report(claim, Success(b"1")) for claim in found]
        if not found:
            await asyncio.sleep(0.001)
    await claims.settle(finished)


SHAPES: dict[str, Submit] = {"lone": lone, "bulk": bulk, "bulk beside lone": bulk_beside_lone}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
async def test_one_claimer_takes_jobs_by_priority_and_age(subject: Opened, shape: Submit) -> None:
    order, chance = ClaimOrder(), Random(1)
    await shape(subject.store, order, chance)
    async with asyncio.timeout(PATIENCE_S):
        await work_off(order.watching(subject.store), "w", order, chance)
    assert sorted(order.claimed) == sorted(order.stored)
    assert order.broken() == []


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
async def test_claimers_side_by_side_take_jobs_by_priority_and_age(subject: Opened, shape: Submit) -> None:
    order = ClaimOrder()
    await shape(subject.store, order, Random(2))
    async with subject.another() as other, asyncio.timeout(PATIENCE_S):
        watched = [order.watching(store) for store in (subject.store, other)]
        await asyncio.gather(*(work_off(watched[i % 2], f"w{i}", order, Random(i)) for i in range(4)))
    assert sorted(order.claimed) == sorted(order.stored)
    assert order.broken() == []


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
async def test_what_comes_while_others_claim_takes_its_place(subject: Opened, shape: Submit) -> None:
    """More jobs of every priority arrive all the time: the urgent among them are next, the others are not."""
    order = ClaimOrder()
    await shape(subject.store, order, Random(3))
    async with subject.another() as other, asyncio.timeout(PATIENCE_S):
        watched = [order.watching(store) for store in (subject.store, other)]
        await asyncio.gather(
            shape(other, order, Random(4)),
            *(work_off(watched[i % 2], f"w{i}", order, Random(i)) for i in range(3)),
        )
        await work_off(watched[0], "last", order, Random(9))
    assert sorted(order.claimed) == sorted(order.stored)
    assert order.broken() == []


@pytest.mark.parametrize("ahead", [0, 30], ids=["no buffer", "a ready buffer"])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
async def test_both_lanes_of_a_worker_take_jobs_by_priority_and_age(subject: Opened, shape: Submit, ahead: int) -> None:
    order, ended = ClaimOrder(), list[int]()

    async def work() -> None:
        await asyncio.sleep(0)
        ended.append(1)

    await shape(subject.store, order, Random(5))
    settings = WorkerSettings(worker_id="w", queues=("default",), concurrency=8, poll_s=0.05)
    handlers = Handlers()
    handlers.add(handler_of("work", work))
    worker = WorkerLoop(
        order.watching(subject.store), handlers, settings, wakeups=LocalWakeups(), pace=Eager(ahead, "work")
    )
    running = asyncio.create_task(worker.run())
    try:
        await until(lambda: len(ended) == len(order.stored), "all jobs have run")
    finally:
        worker.stop()
        await running
    assert sorted(order.claimed) == sorted(order.stored)
    assert order.broken() == []
