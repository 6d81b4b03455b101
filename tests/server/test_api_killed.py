"""kill -9 of the control plane amid worker traffic: what was acknowledged lasts, and every job ends once."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import Any

import httpx
import pytest

from euterpe.backends.engines import connect
from euterpe.model.state import TERMINAL, State
from euterpe.model.submitting.submission import Submission
from tests.server.plane import PlaneProcess, anonymous, lease_of, plane_process, running_plane
from tests.servers.process import free_port

JOBS = 120
WORKERS = 8
KILLS = 3
KILL_EVERY = JOBS // (KILLS + 1)


class Crew:
    """Workers that keep their side of the contract: they repeat a report until it is answered."""

    def __init__(self, base_url: str, key: str) -> None:
        self._base_url = base_url
        self._key = key
        self.acknowledged: dict[str, Any] = {}
        self.stale = 0
        self.interrupted = 0
        self.submitted: dict[str, str] = {}
        self.progress = asyncio.Condition()
        self.stopped = False

    async def work(self, number: int) -> None:
        name = f"w-{number}"
        async with anonymous(self._base_url) as client:
            client.headers["authorization"] = f"Bearer {self._key}"
            while not self.stopped:
                ask = {"worker_id": name, "streams": ["default"], "max_wait_ms": 200, "max_jobs": 2}
                try:
                    answer = await client.post("/internal/worker/claim", json=ask)
                except httpx.TransportError:
                    self.interrupted += 1
                    await asyncio.sleep(0.02)  # the control plane is down; a real worker waits too
                    continue
                for job in answer.json().get("jobs", []):
                    await self._report(client, name, job)

    async def submit(self, count: int) -> None:
        """One job at a time, each with a key, repeated until it is accepted."""
        async with anonymous(self._base_url) as client:
            client.headers["authorization"] = f"Bearer {self._key}"
            for i in range(count):
                body = {"type": "t", "payload": {"n": i}, "idempotency_key": f"k{i}", "max_attempts": 50}
                answer = await self._until_answered(client, "/jobs", body)
                assert answer.status_code == 202, answer.text
                self.submitted[f"k{i}"] = answer.json()["job_id"]

    async def _report(self, client: httpx.AsyncClient, name: str, job: dict[str, Any]) -> None:
        result = {"by": job["attempt_id"]}
        body = lease_of(job, worker_id=name) | {"result": result}
        answer = await self._until_answered(client, "/internal/worker/complete", body)
        if answer.status_code == 409:
            self.stale += 1
            return
        assert answer.status_code == 200, answer.text
        assert job["job_id"] not in self.acknowledged, "two completions of one job were acknowledged"
        self.acknowledged[job["job_id"]] = result
        async with self.progress:
            self.progress.notify_all()

    async def _until_answered(self, client: httpx.AsyncClient, path: str, body: dict[str, Any]) -> httpx.Response:
        while True:
            try:
                answer = await client.post(path, json=body)
            except httpx.TransportError:
                self.interrupted += 1
            else:
                if answer.status_code < 500:
                    return answer
            await asyncio.sleep(0.02)

    async def until_acknowledged(self, count: int) -> None:
        async with self.progress:
            await self.progress.wait_for(lambda: len(self.acknowledged) >= count)


@pytest.mark.timeout(300)
async def test_nothing_is_lost_when_the_control_plane_is_killed_again_and_again(url: str) -> None:
    async with running_plane(url) as plane:
        key = await plane.key("submit", "read", "worker")
    options = ("--lease-s", "5", "--sweep-s", "0.1")  # a slow machine reports within the lease, too
    rng = random.Random(20261115)
    with plane_process(url, *options, port=free_port()) as first:
        crew = Crew(first.base_url, key)
        tasks = [asyncio.create_task(crew.work(i)) for i in range(WORKERS)]
        submitting = asyncio.create_task(crew.submit(JOBS))
        await kill_in_the_middle(first, crew, KILL_EVERY, rng)
    for kill in range(2, KILLS + 1):
        with plane_process(url, *options, port=first.port) as again:
            await kill_in_the_middle(again, crew, kill * KILL_EVERY, rng)
    with plane_process(url, *options, port=first.port):
        await asyncio.wait_for(submitting, 100)
        await asyncio.wait_for(until_all_ended(url), 100)
        crew.stopped = True
        await asyncio.gather(*tasks)
    assert crew.interrupted > 0, "the kills hit nobody"
    assert len(set(crew.submitted.values())) == JOBS
    await check(url, crew)


async def kill_in_the_middle(plane: PlaneProcess, crew: Crew, after: int, rng: random.Random) -> None:
    await asyncio.wait_for(crew.until_acknowledged(after), 60)
    await asyncio.sleep(rng.uniform(0, 0.02))  # anywhere inside a claim, a settle or a submit
    await asyncio.to_thread(plane.kill)


async def until_all_ended(url: str) -> None:
    backend = connect(url)
    await backend.open()
    try:
        while True:
            states = (await backend.store.stats()).by_state
            if sum(states.get(state, 0) for state in TERMINAL) == JOBS and set(states) <= set(TERMINAL):
                return
            await asyncio.sleep(0.1)
    finally:
        await backend.close()


async def check(url: str, crew: Crew) -> None:
    backend = connect(url)
    await backend.open()
    try:
        for job_id in crew.submitted.values():
            job = await backend.store.get(job_id)
            assert job.state is State.COMPLETED, (job_id, job.state)
            ends = Counter(attempt.outcome for attempt in await backend.store.attempts(job_id))
            assert ends["completed"] == 1, (job_id, ends)
            if job_id in crew.acknowledged:
                by = crew.acknowledged[job_id]["by"]
                assert job.result == f'{{"by":"{by}"}}'.encode(), "the acknowledged result is not the stored one"
        extra = await backend.store.submit(Submission(type="t", requester_id="vesta", payload=b'{"n":0}',
                                                      idempotency_key="k0", max_attempts=50))  # fmt: skip
        assert extra.job_id == crew.submitted["k0"]
        assert extra.replayed
    finally:
        await backend.close()
