"""Jobs that can wait in a worker come beyond its free slots, in a turn that asks for them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import httpx
import msgspec
import pytest

from euterpe.model.claims.exchange import ClaimRequest, Report
from euterpe.model.job import Claim, Lease
from euterpe.model.submitting.submission import Submission
from euterpe.server.long_poll import LongPoll, Waiter
from euterpe.stores.remote.documents import ClaimedDocument, claim_of
from euterpe.wakeups.local import LocalWakeups
from tests.server.plane import Plane
from tests.worker.floor import until

TURN = "/internal/worker/turn"
CLAIM = "/internal/worker/claim"
Json = dict[str, Any]


def job(**said: Any) -> Submission:
    return Submission(type="t", requester_id="vesta", **said)


async def turn(client: httpx.AsyncClient, **claim: Any) -> list[Json]:
    answer = await client.post(TURN, json={"worker_id": "w-1", "claim": {"streams": ["default"], **claim}})
    assert answer.status_code == 200, answer.text
    jobs: list[Json] = answer.json()["jobs"]
    return jobs


async def test_a_turn_brings_what_can_wait_up_to_the_first_that_cannot(plane: Plane, client: httpx.AsyncClient) -> None:
    for said in ({}, {}, {}, {"max_attempts": 1}, {}):
        await plane.store.submit(job(**said))
    ahead = {"max_ahead": 10, "ahead_types": ["t"]}
    assert len(await turn(client, max_jobs=1, **ahead)) == 3
    assert await turn(client, max_jobs=0, **ahead) == [], "what is behind it does not overtake it"
    once, *_ = await turn(client, max_jobs=1, **ahead)
    assert once["max_attempts"] == 1


async def test_only_a_turn_claims_ahead_and_only_what_it_names(plane: Plane, client: httpx.AsyncClient) -> None:
    await plane.store.submit_many([job() for _ in range(5)])
    asked = {"worker_id": "w-1", "streams": ["default"], "max_jobs": 1, "max_ahead": 10, "ahead_types": ["t"]}
    assert len((await client.post(CLAIM, json=asked)).json()["jobs"]) == 1
    assert len(await turn(client, max_jobs=1, max_ahead=10, ahead_types=["another"])) == 1
    assert await turn(client, max_jobs=0, max_ahead=10) == []


async def test_what_is_over_the_limit_of_its_key_is_not_claimed_ahead(plane: Plane, client: httpx.AsyncClient) -> None:
    keyed = {"concurrency_key": "k", "concurrency_limit": 2}
    await plane.store.submit_many([job(), *(job(**keyed) for _ in range(4))])
    assert len(await turn(client, max_jobs=1, max_ahead=10, ahead_types=["t"])) == 3
    assert await turn(client, max_jobs=0, max_ahead=10, ahead_types=["t"]) == []


class Line:
    """Claims as a store would make them, for whoever is named."""

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs
        self.asked: list[tuple[ClaimRequest, list[str]]] = []

    async def claim_for(self, request: ClaimRequest, workers: Sequence[str]) -> list[Claim]:
        self.asked.append((request, list(workers)))
        took, self.jobs = min(self.jobs, len(workers)), max(0, self.jobs - len(workers))
        return [claimed(number, worker) for number, worker in enumerate(workers[:took])]

    async def release(self, _finished: Sequence[Report]) -> None:
        raise AssertionError("all of it was wanted")


def claimed(number: int, worker_id: str) -> Claim:
    document = {
        "job_id": str(number),
        "attempt_id": f"{number}:1",
        "lease_token": "t",
        "stream": {},
        "queue": "q",
        "payload": {},
        "lease_ttl_seconds": 1.0,
        "type": "t",
        "attempt": 1,
        "max_attempts": 2,
        "timeout_seconds": 1.0,
        "lease_expires_at": "2026-01-01T00:00:00Z",
        "priority": "normal",
        "created_at": "2026-01-01T00:00:00Z",
    }
    claim = claim_of(msgspec.json.decode(msgspec.json.encode(document), type=ClaimedDocument), worker_id)
    return Claim(claim.job, Lease(claim.job.id, 1, claim.lease.expires_at))


async def served(line: Line, *waiters: Waiter) -> list[list[str]]:
    """Which jobs each of them gets, all asking at the same moment."""
    coordinator = LongPoll(line.claim_for, line.release, LocalWakeups(), lease_ttl_us=1, poll_s=(0.1, 0.1))
    async with asyncio.timeout(30):
        await asyncio.gather(*(coordinator.claim(waiter, ["q"], None, 0.0) for waiter in waiters))
    await coordinator.close()
    return [[claim.job.id for claim in waiter.future.result()] for waiter in waiters]


async def test_who_has_a_free_slot_is_served_before_who_could_have_more_ahead() -> None:
    line = Line(7)
    rich, poor = Waiter("rich", 1, 4, ["a", "t"]), Waiter("poor", 3, 2, ["t", "b"])
    assert await served(line, rich, poor) == [["0", "4", "6"], ["1", "2", "3", "5"]]
    request, workers = line.asked[0]
    assert (request.limit, request.prefetch, request.prefetch_types) == (4, 6, ("t",)), "what can wait at both of them"
    assert len(workers) == request.total


@pytest.mark.parametrize("other", [["b"], []])
async def test_nothing_comes_ahead_that_cannot_wait_at_everybody_who_asks(other: list[str]) -> None:
    line = Line(9)
    assert await served(line, Waiter("one", 1, 4, ["t"]), Waiter("two", 1, 4, other)) == [["0"], ["1"]]
    assert line.asked[0][0].prefetch == 0


async def test_who_asks_for_nothing_that_there_could_be_is_answered_at_once() -> None:
    line = Line(9)
    assert await served(line, Waiter("w", 0, 4, [])) == [[]]
    assert line.asked == []
    assert await served(Line(0), Waiter("w", 0, 4, ["t"])) == [[]]


class SlowLine(Line):
    """The first claim takes until it is let go."""

    def __init__(self) -> None:
        super().__init__(0)
        self.is_asked = asyncio.Event()
        self.let_go = asyncio.Event()

    async def claim_for(self, request: ClaimRequest, workers: Sequence[str]) -> list[Claim]:
        self.is_asked.set()
        await self.let_go.wait()
        return await super().claim_for(request, workers)


async def test_who_can_get_nothing_beside_others_does_not_wait_for_them() -> None:
    """Its turn reported what had ended; the answer to that must not come only when others get a job."""
    line = SlowLine()
    coordinator = LongPoll(line.claim_for, line.release, LocalWakeups(), lease_ttl_us=1, poll_s=(0.01, 0.01))
    idle, full = Waiter("idle", 1, 4, ["a"]), Waiter("full", 0, 4, ["b"])
    waiting = asyncio.create_task(coordinator.claim(idle, ["q"], None, 3600.0))
    async with asyncio.timeout(30):
        await line.is_asked.wait()
        served = asyncio.create_task(coordinator.claim(full, ["q"], None, 0.0))
        await until(lambda: full.late, "its time is up")
        line.let_go.set()
        await served
    assert full.future.result() == []
    assert not idle.future.done()
    await coordinator.close()
    await waiting
