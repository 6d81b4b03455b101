"""Eight claimers at once, each on a connection of its own, work off runs and lone jobs of several priorities."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from random import Random

import pytest

from euterpe.model.claims.exchange import ClaimRequest, Report
from euterpe.model.claims.outcome import Released, Success
from euterpe.model.submitting.submission import Submission
from euterpe.ports import Claims
from euterpe.stores.sql.postgres.engine import PostgresEngine
from euterpe.stores.sql.store import SqlStore
from tests.conformance.claim_order import Answer, ClaimOrder
from tests.conformance.engines import PostgresTables, opened
from tests.line.at_rest import faults_at_rest
from tests.patience import PATIENCE_S

CLAIMERS = 8
PRIORITIES = (0, 2, 4)


async def submit_a_mix(store: SqlStore, order: ClaimOrder, chance: Random, rounds: int) -> None:
    """Long runs, batches of several priorities, lone jobs."""
    for _ in range(rounds):
        alike = Submission(type="work", payload=b"{}", priority=chance.choice(PRIORITIES))
        mixed = [Submission(type="work", payload=b"{}", priority=chance.choice(PRIORITIES)) for _ in range(20)]
        for batch in ([alike] * 300, mixed):
            order.note_stored([found.job_id for found in await store.submit_many(batch)])
        for _ in range(15):
            lone = Submission(type="work", payload=b"{}", priority=chance.choice(PRIORITIES))
            order.note_stored([(await store.submit(lone)).job_id])


async def work_off(claims: Claims, worker_id: str, order: ClaimOrder, chance: Random, *, gives_back: bool) -> None:
    ended: list[Report] = []
    while len(set(order.claimed)) < len(order.stored) or ended:
        request = ClaimRequest(worker_id=worker_id, limit=chance.choice((1, 1, 5, 40, 400)))
        verdicts, found = await claims.exchange(ended, request)
        assert all(verdict.accepted for verdict in verdicts)
        ended = [
            Report(claim, Released() if gives_back and not chance.randrange(20) else Success(b"1")) for claim in found
        ]
        if not found:
            await asyncio.sleep(0.001)


def came_back_empty(order: ClaimOrder) -> list[str]:
    """Of each claim that brought nothing: jobs that were stored before it was asked for, and that only a claim took
    which was asked for when it had been answered."""
    first_asked: dict[str, int] = {}
    for answer in order.answers:
        for job in answer.jobs:
            first_asked[job.id] = min(answer.asked, first_asked.get(job.id, answer.asked))
    return [
        f"{left} jobs were ready"
        for answer in order.answers
        if not answer.jobs and (left := _ready_all_the_time(order, first_asked, answer))
    ]


def _ready_all_the_time(order: ClaimOrder, first_asked: dict[str, int], empty: Answer) -> int:
    return sum(at < empty.asked and first_asked[job_id] > empty.answered for job_id, at in order.stored.items())


@pytest.mark.parametrize("gives_back", [False, True], ids=["all complete", "some are given back"])
async def test_a_crowd_of_claimers_loses_nothing_doubles_nothing_and_keeps_the_order(
    fresh_postgres_url: str, gives_back: bool
) -> None:
    order = ClaimOrder()
    async with AsyncExitStack() as stack, asyncio.timeout(PATIENCE_S):
        url = f"{fresh_postgres_url}&pool_size=1"
        stores = [await stack.enter_async_context(opened(PostgresEngine(url))) for _ in range(CLAIMERS)]
        await submit_a_mix(stores[0], order, Random(1), 3)
        await asyncio.gather(
            submit_a_mix(stores[0], order, Random(2), 2),
            *(
                work_off(order.watching(store), f"w{n}", order, Random(n), gives_back=gives_back)
                for n, store in enumerate(stores)
            ),
        )
        await work_off(order.watching(stores[0]), "last", order, Random(9), gives_back=False)
    tables = PostgresTables(fresh_postgres_url)
    try:
        states = await tables.run("SELECT state, COUNT(*) FROM inbox_jobs GROUP BY state ORDER BY state")
        given = [(job.id, job.claim_version) for answer in order.answers for job in answer.jobs]
        assert len(set(given)) == len(given)
        assert set(order.claimed) == set(order.stored)
        assert await faults_at_rest(tables) == []
        if not gives_back:
            assert states == [("completed", len(order.stored))]
            assert await tables.run("SELECT COUNT(*) FROM euterpe_line") == [(0,)]
            assert order.broken() == []
            assert came_back_empty(order) == []
    finally:
        await tables.close()
