"""Quotas: one requester cannot fill the database alone, and learns when to come again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest

from euterpe.model.reading.views import Usage
from euterpe.model.submitting.submission import Submission
from euterpe.server.http.limits import Limits
from euterpe.server.http.problems import Refusal
from euterpe.server.quotas import Quota, Quotas
from euterpe.stores.sql.control_plane import SqlControlPlane
from tests.server.plane import Plane, claim_one, lease_of, running_plane


@asynccontextmanager
async def limited(url: str, quota: Quota) -> AsyncIterator[tuple[Plane, httpx.AsyncClient]]:
    async with running_plane(url, Limits(quota=quota)) as plane, plane.client() as client:
        yield plane, client


def is_over(answer: httpx.Response, name: str) -> bool:
    assert (answer.status_code, answer.json()["code"]) == (429, "quota_exceeded"), answer.text
    assert int(answer.headers["retry-after"]) >= 1
    return name in answer.json()["detail"]


async def test_a_requester_has_so_many_jobs_waiting_and_no_more(url: str) -> None:
    async with limited(url, Quota(waiting_jobs=3)) as (plane, client):
        for _ in range(3):
            assert (await client.post("/jobs", json={"type": "t"})).status_code == 202
        assert is_over(await client.post("/jobs", json={"type": "t"}), "waiting_jobs")
        assert len((await client.get("/jobs")).json()["jobs"]) == 3
        async with plane.client(requester="another") as other:
            assert (await other.post("/jobs", json={"type": "t"})).status_code == 202


async def test_a_batch_over_the_quota_is_refused_whole(url: str) -> None:
    async with limited(url, Quota(waiting_jobs=3)) as (_, client):
        assert is_over(await client.post("/jobs/batch", json={"jobs": [{"type": "t"}] * 4}), "waiting_jobs")
        assert (await client.post("/jobs/batch", json={"jobs": [{"type": "t"}] * 3})).status_code == 202


async def test_what_was_there_before_counts_and_what_ended_does_not(url: str) -> None:
    async with running_plane(url) as before, before.client() as client:
        for _ in range(2):
            await client.post("/jobs", json={"type": "t"})
    async with limited(url, Quota(waiting_jobs=2)) as (_, client):
        assert is_over(await client.post("/jobs", json={"type": "t"}), "waiting_jobs")
        await client.post("/internal/worker/complete", json=lease_of(await claim_one(client)))
        async with asyncio.timeout(30):
            while (await client.post("/jobs", json={"type": "t"})).status_code != 202:  # noqa: ASYNC110  # counted again
                await asyncio.sleep(0.05)


async def test_a_replay_is_answered_though_the_quota_is_used_up(url: str) -> None:
    async with limited(url, Quota(waiting_jobs=3, idempotency_keys=2)) as (_, client):
        one, batch = {"idempotency-key": "one"}, {"idempotency-key": "batch"}
        first = await client.post("/jobs", json={"type": "t"}, headers=one)
        both = await client.post("/jobs/batch", json={"jobs": [{"type": "t"}] * 2}, headers=batch)
        assert (first.status_code, both.status_code) == (202, 202)
        again = await client.post("/jobs", json={"type": "t"}, headers=one)
        assert (again.status_code, again.content, again.headers["idempotency-replayed"]) == (202, first.content, "true")
        again = await client.post("/jobs/batch", json={"jobs": [{"type": "t"}] * 2}, headers=batch)
        assert (again.status_code, again.content) == (202, both.content)
        other = await client.post("/jobs", json={"type": "t", "payload": 1}, headers=one)
        assert other.status_code == 409, "the key stands for another request"
        assert is_over(await client.post("/jobs", json={"type": "t"}), "waiting_jobs")


async def test_payloads_are_counted_in_bytes(url: str) -> None:
    async with limited(url, Quota(waiting_bytes=10_000)) as (_, client):
        assert (await client.post("/jobs", json={"type": "t", "payload": "x" * 6_000})).status_code == 202
        assert is_over(await client.post("/jobs", json={"type": "t", "payload": "x" * 6_000}), "waiting_bytes")
        assert (await client.post("/jobs", json={"type": "t", "payload": "x" * 3_000})).status_code == 202


async def test_idempotency_keys_are_counted(url: str) -> None:
    async with running_plane(url) as before, before.client() as client:
        await client.post("/jobs", json={"type": "t"}, headers={"idempotency-key": "before"})
    async with limited(url, Quota(idempotency_keys=2)) as (_, client):
        assert (await client.post("/jobs", json={"type": "t"}, headers={"idempotency-key": "b"})).status_code == 202
        refused = await client.post("/jobs", json={"type": "t"}, headers={"idempotency-key": "c"})
        assert is_over(refused, "idempotency_keys")
        assert (await client.post("/jobs", json={"type": "t"})).status_code == 202


async def test_requests_of_all_keys_of_a_requester_count_together(sqlite_url: str) -> None:
    limits = Limits(requester_rate_per_s=0.001, rate_burst=3)
    async with (
        running_plane(sqlite_url, limits) as plane,
        plane.client("read") as one,
        plane.client("read") as two,
        plane.client("read", requester="another") as other,
    ):
        statuses = [(await client.get("/jobs")).status_code for client in (one, two, one, two)]
        assert statuses == [200, 200, 200, 429]
        assert (await other.get("/jobs")).status_code == 200


async def test_many_submissions_share_a_count(sqlite_url: str) -> None:
    async with running_plane(sqlite_url) as plane:
        counts = 0
        store = plane.store

        class Counted(SqlControlPlane):
            async def usage(self, *, of_jobs: bool, of_keys: bool) -> dict[str, Usage]:
                nonlocal counts
                counts += 1
                return await super().usage(of_jobs=of_jobs, of_keys=of_keys)

        now = 0.0
        quotas = Quotas(
            Counted(store.engine, store.rng, store.end_reporter, store._exchange), Quota(waiting_jobs=100), lambda: now
        )
        submission = Submission(type="t", requester_id="r")
        await asyncio.gather(*(quotas.admit("r", [submission]) for _ in range(100)))
        assert counts == 1
        with pytest.raises(Refusal):
            await quotas.admit("r", [submission])


async def test_jobs_that_run_again_count_like_new_ones(url: str) -> None:
    async with limited(url, Quota(waiting_jobs=2)) as (plane, client):
        ended = []
        for _ in range(2):
            submitted = await plane.store.submit(Submission(type="t", requester_id="vesta"))
            await plane.store.cancel(submitted.job_id, "vesta")
            ended.append(submitted.job_id)
        order = {"action": "replay", "q": "state:cancelled"}
        assert (await client.post(f"/jobs/{ended[0]}/retry")).status_code == 202
        assert is_over(await client.post("/operations", json=order), "waiting_jobs")
        assert (await client.post(f"/jobs/{ended[1]}/retry", json={"dependents": True})).status_code == 202
        assert is_over(await client.post(f"/jobs/{ended[0]}/retry"), "waiting_jobs")
        assert is_over(await client.post(f"/jobs/{ended[0]}/retry", json={"dependents": True}), "waiting_jobs")
        assert (await client.post("/operations", json=order | {"action": "cancel"})).status_code == 202
        assert len((await client.get("/jobs")).json()["jobs"]) == 4
