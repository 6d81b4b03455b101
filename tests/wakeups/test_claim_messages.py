"""The messages of claims over HTTP: real ones, pending until the end is committed, and gone right after it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import redis

from euterpe.model.errors import StoreUnavailable
from euterpe.model.state import State
from euterpe.model.submitting.submission import Submission
from euterpe.stores.sql.worker_protocol.store import WorkerProtocolStore
from tests.server.plane import Plane, claim_one, lease_of, running_plane
from tests.servers.process import free_port
from tests.wakeups.crew import is_drained, messages_in, until

COMPLETE = "/internal/worker/complete"
FAIL = "/internal/worker/fail"
STREAM = "euterpe:default:2"


@pytest.fixture(params=["sqlite_url", "fresh_postgres_url"])
async def plane(request: pytest.FixtureRequest, redis_url: str) -> AsyncIterator[Plane]:
    async with running_plane(request.getfixturevalue(request.param), transport=redis_url) as running:
        yield running


@pytest.fixture
async def client(plane: Plane) -> AsyncIterator[httpx.AsyncClient]:
    async with plane.client() as http:
        yield http


@pytest.fixture
def streams(redis_url: str) -> redis.Redis:
    return redis.Redis.from_url(redis_url, decode_responses=True)


async def submitted(plane: Plane, **said: Any) -> str:
    return (await plane.store.submit(Submission(type="t", requester_id="vesta", **said))).job_id


def job_at(streams: redis.Redis, message: dict[str, str]) -> str | None:
    found: Any = streams.xrange(message["name"], message["message_id"], message["message_id"])
    return found[0][1]["job_id"] if found else None


def named(job: dict[str, Any]) -> dict[str, Any]:
    """What a worker sends back of its claim."""
    return lease_of(job) | {"stream": job["stream"]["name"], "message_id": job["stream"]["message_id"]}


async def test_a_claim_answers_with_the_real_stream_and_message(
    plane: Plane, client: httpx.AsyncClient, streams: redis.Redis
) -> None:
    job_id = await submitted(plane)
    job = await claim_one(client)
    assert (job["stream"]["name"], job["queue"]) == (STREAM, "default")
    assert job_at(streams, job["stream"]) == job_id
    many = {"worker_id": "w", "streams": ["default"], "max_jobs": 10}
    ids = {await submitted(plane, priority=0) for _ in range(5)}
    jobs = (await client.post("/internal/worker/claim", json=many)).json()["jobs"]
    assert {job_at(streams, job["stream"]) for job in jobs} == ids
    assert {job["stream"]["name"] for job in jobs} == {"euterpe:default:0"}


@pytest.mark.parametrize("end", ["complete", "fail", "dead letter", "released"])
async def test_a_message_stays_until_the_commit_and_goes_after_it(
    plane: Plane, client: httpx.AsyncClient, streams: redis.Redis, redis_url: str, end: str
) -> None:
    await submitted(plane, max_attempts=1 if end == "dead letter" else 3)
    job = await claim_one(client)
    await until(lambda: bool(plane.store.wakeups._registry.running))  # type: ignore[union-attr]  # the transport's own
    await plane.store.wakeups._drop_done()  # type: ignore[union-attr]  # whatever it does about a message, it does it here
    assert job_at(streams, job["stream"]) == job["job_id"]
    assert messages_in(redis_url) == (1, 1)
    if end == "complete":
        answer = await client.post(COMPLETE, json=named(job))
    else:
        said = {"released": True} if end == "released" else {"error": {"message": "no"}}
        answer = await client.post(FAIL, json=named(job) | said)
    assert answer.json()["ack"] is True
    await until(lambda: job_at(streams, job["stream"]) is None)
    if end == "released":
        await plane.store.cancel(job["job_id"])
    await until(lambda: is_drained(redis_url))


async def test_a_commit_that_fails_leaves_the_message_pending(
    plane: Plane, client: httpx.AsyncClient, streams: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Acknowledged before the commit, it would be gone for a job that still runs."""
    await submitted(plane)
    job = await claim_one(client)
    wakeups: Any = plane.store.wakeups
    finish = WorkerProtocolStore.finish

    async def refuse(self: WorkerProtocolStore, reports: Any) -> Any:
        # Time for whoever acknowledges too early.
        while wakeups._ended:  # noqa: ASYNC110  # a deque has no event
            await asyncio.sleep(0.01)
        raise StoreUnavailable("the disk is full")

    monkeypatch.setattr(WorkerProtocolStore, "finish", refuse)
    assert (await client.post(COMPLETE, json=named(job))).status_code == 503
    await wakeups._drop_done()
    assert job_at(streams, job["stream"]) == job["job_id"]
    monkeypatch.setattr(WorkerProtocolStore, "finish", finish)
    assert (await client.post(COMPLETE, json=named(job))).json() == {"ok": True, "ack": True}
    await until(lambda: job_at(streams, job["stream"]) is None)


async def test_a_worker_can_neither_acknowledge_anothers_message_nor_touch_other_keys(
    plane: Plane, client: httpx.AsyncClient, streams: redis.Redis
) -> None:
    await submitted(plane)
    await submitted(plane)
    mine, other = await claim_one(client), await claim_one(client)
    streams.xadd("theirs", {"job_id": mine["job_id"]}, id="1-1")
    for stream, message_id in (
        (other["stream"]["name"], other["stream"]["message_id"]),
        ("theirs", "1-1"),
        ("euterpe:default:2", "-"),
        ("euterpe:nowhere:2", "0-0"),
    ):
        forged = lease_of(mine) | {"stream": stream, "message_id": message_id}
        assert (await client.post(COMPLETE, json=forged)).status_code == 200  # the same report each time
    wakeups: Any = plane.store.wakeups
    await until(lambda: not wakeups._ended)
    assert job_at(streams, other["stream"]) == other["job_id"]
    assert streams.xlen("theirs") == 1
    await until(lambda: job_at(streams, mine["stream"]) is None)  # its own goes by the state of its job


async def test_a_worker_with_its_own_connection_may_acknowledge_too(
    plane: Plane, client: httpx.AsyncClient, streams: redis.Redis, redis_url: str
) -> None:
    await submitted(plane)
    job = await claim_one(client)
    assert (await client.post(COMPLETE, json=named(job))).json()["ack"] is True
    streams.xack(job["stream"]["name"], "workers", job["stream"]["message_id"])
    streams.xdel(job["stream"]["name"], job["stream"]["message_id"])
    await until(lambda: is_drained(redis_url))
    await submitted(plane)
    assert (await claim_one(client))["claimed"] is True


async def test_a_lost_stream_costs_no_job(
    plane: Plane, client: httpx.AsyncClient, streams: redis.Redis, redis_url: str
) -> None:
    job_id = await submitted(plane)
    job = await claim_one(client)
    streams.flushdb()
    assert (await client.post(COMPLETE, json=named(job))).json() == {"ok": True, "ack": True}
    assert (await plane.store.get(job_id)).state is State.COMPLETED
    again = await submitted(plane)
    job = await claim_one(client)
    assert job_at(streams, job["stream"]) == again
    await client.post(COMPLETE, json=named(job))
    await until(lambda: is_drained(redis_url))


async def test_without_redis_a_claim_names_the_queue_and_the_attempt(sqlite_url: str) -> None:
    nowhere = f"redis://127.0.0.1:{free_port()}/0"
    async with running_plane(sqlite_url, transport=nowhere) as plane, plane.client() as client:
        await submitted(plane)
        job = await claim_one(client)
        assert job["stream"] == {"name": "default", "message_id": job["attempt_id"]}
        assert (await client.post(COMPLETE, json=named(job))).status_code == 200
