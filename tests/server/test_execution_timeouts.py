"""The execution timeout of HTTP workers: nobody here can stop their handlers, so the deadline itself ends the lease."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from euterpe.model.state import State
from euterpe.model.submitting.submission import Submission
from tests.conformance.clock import FrozenClock
from tests.server.plane import Plane, claim_one, lease_of, running_plane

HEARTBEAT = "/internal/worker/heartbeat"
COMPLETE = "/internal/worker/complete"
FAIL = "/internal/worker/fail"
TURN = "/internal/worker/turn"
SECOND = 1_000_000


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


@pytest.fixture
async def plane(url: str, clock: FrozenClock) -> AsyncIterator[Plane]:
    async with running_plane(url, clock=clock) as running:
        yield running


# A job with a callback takes the general way on every engine, a plain one the brief way where there is one.
plain_and_told = pytest.mark.parametrize(
    "said", [{}, {"callback_url": "http://127.0.0.1:1/hook"}], ids=["plain", "told"]
)


async def submit(plane: Plane, **said: Any) -> str:
    told: dict[str, Any] = {"type": "t", "requester_id": "vesta", "execution_timeout_us": 100 * SECOND}
    return (await plane.store.submit(Submission(**(told | said)))).job_id


@plain_and_told
async def test_the_deadline_bounds_the_lease_of_a_claim(
    plane: Plane, client: httpx.AsyncClient, said: dict[str, Any]
) -> None:
    job_id = await submit(plane, execution_timeout_us=10 * SECOND, **said)
    job = await claim_one(client)
    assert (job["lease_ttl_seconds"], job["timeout_seconds"]) == (10, 10)
    stored = await plane.store.get(job_id)
    assert stored.started_at is not None
    assert stored.lease_expires_at == stored.started_at + 10 * SECOND


@plain_and_told
async def test_heartbeats_renew_up_to_the_deadline_and_are_refused_after_it(
    plane: Plane, client: httpx.AsyncClient, clock: FrozenClock, said: dict[str, Any]
) -> None:
    job_id = await submit(plane, **said)
    job = await claim_one(client)
    deadline = (await plane.store.get(job_id)).created_at + 100 * SECOND
    clock.advance(seconds=90)
    assert (await client.post(HEARTBEAT, json=lease_of(job))).status_code == 200
    assert (await plane.store.get(job_id)).lease_expires_at == deadline
    clock.advance(seconds=11)
    late = await client.post(HEARTBEAT, json=lease_of(job))
    assert (late.status_code, late.json()["ok"]) == (409, False)
    with_news = await client.post(HEARTBEAT, json=lease_of(job) | {"progress": 50})
    assert (with_news.status_code, with_news.json()["ok"]) == (409, False)
    in_a_turn = await client.post(TURN, json={"worker_id": "w-1", "heartbeat": [lease_of(job)]})
    assert in_a_turn.json()["heartbeat"][0]["ok"] is False
    assert (await plane.store.get(job_id)).lease_expires_at == deadline


@plain_and_told
@pytest.mark.parametrize("swept", [False, True], ids=["before_the_sweep", "after_the_sweep"])
async def test_a_completion_after_the_deadline_is_refused(
    plane: Plane, client: httpx.AsyncClient, clock: FrozenClock, said: dict[str, Any], swept: bool
) -> None:
    job_id = await submit(plane, **said)
    job = await claim_one(client)
    clock.advance(seconds=100, us=1)
    if swept:
        assert await plane.store.sweeps.reclaim() == 1
    late = await client.post(COMPLETE, json=lease_of(job) | {"result": {"n": 1}})
    assert (late.status_code, late.json()["ok"]) == (409, False)
    given_back = await client.post(FAIL, json=lease_of(job) | {"released": True})
    assert given_back.status_code == 409
    stored = await plane.store.get(job_id)
    assert (stored.state, stored.result) == (State.RETRYING if swept else State.RUNNING, None)


async def test_a_completion_at_the_last_moment_counts(
    plane: Plane, client: httpx.AsyncClient, clock: FrozenClock
) -> None:
    job_id = await submit(plane)
    job = await claim_one(client)
    clock.advance(seconds=100)
    assert (await client.post(COMPLETE, json=lease_of(job))).status_code == 200
    assert (await plane.store.get(job_id)).state is State.COMPLETED


@plain_and_told
async def test_the_sweep_ends_an_attempt_past_its_deadline_as_a_timeout_while_the_budget_lasts(
    plane: Plane, client: httpx.AsyncClient, clock: FrozenClock, said: dict[str, Any]
) -> None:
    job_id = await submit(plane, max_attempts=2, **said)
    job = await claim_one(client)
    clock.advance(seconds=80)
    assert (await client.post(HEARTBEAT, json=lease_of(job))).status_code == 200
    clock.advance(seconds=20, us=1)
    assert await plane.store.sweeps.reclaim() == 1
    first = await plane.store.get(job_id)
    assert (first.state, (first.error_document or {})["category"]) == (State.RETRYING, "timeout")
    assert (first.error_document or {})["code"] == "timeout"
    clock.advance(seconds=10)
    await plane.store.sweeps.promote()
    again = await claim_one(client)
    assert again["attempt"] == 2
    clock.advance(seconds=60)
    assert (await client.post(HEARTBEAT, json=lease_of(again))).status_code == 200
    clock.advance(seconds=41)
    assert await plane.store.sweeps.reclaim() == 1
    assert (await plane.store.get(job_id)).state is State.DEAD_LETTER
    assert [attempt.outcome for attempt in await plane.store.attempts(job_id)] == ["timeout", "timeout"]


async def test_a_timeout_that_shall_not_be_retried_ends_the_job(
    plane: Plane, client: httpx.AsyncClient, clock: FrozenClock
) -> None:
    body = {"type": "t", "timeout": "10s", "backoff": {"strategy": "constant", "on_timeout": False}}
    job_id = (await client.post("/jobs", json=body)).json()["job_id"]
    await claim_one(client)
    clock.advance(seconds=11)
    await plane.store.sweeps.reclaim()
    assert (await plane.store.get(job_id)).state is State.DEAD_LETTER


async def test_a_worker_that_went_silent_before_its_deadline_is_a_lost_one(
    plane: Plane, client: httpx.AsyncClient, clock: FrozenClock
) -> None:
    job_id = await submit(plane)
    await claim_one(client)
    clock.advance(seconds=61)
    await plane.store.sweeps.reclaim()
    assert ((await plane.store.get(job_id)).error_document or {})["code"] == "lost_lease"


async def test_a_worker_may_still_say_why_it_failed_when_it_does_so_before_the_sweep(
    plane: Plane, client: httpx.AsyncClient, clock: FrozenClock
) -> None:
    job_id = await submit(plane)
    job = await claim_one(client)
    clock.advance(seconds=101)
    error = {"code": "timeout", "message": "took too long", "category": "timeout"}
    assert (await client.post(FAIL, json=lease_of(job) | {"error": error})).json()["requeued"] is True
    assert ((await plane.store.get(job_id)).error_document or {})["message"] == "took too long"
