"""`GET /jobs/{id}/why`."""

from __future__ import annotations

import httpx

from euterpe.model.claims.presence import Presence, WorkerFacts
from euterpe.wire import jobs as wire_jobs
from tests.server.plane import Plane
from tests.server.test_jobs_api import exact, submit


async def test_a_job_explains_over_http_why_it_waits(client: httpx.AsyncClient, plane: Plane) -> None:
    first, second = await submit(client), await submit(client)
    told = await client.get(f"/jobs/{second['job_id']}/why")
    exact(told.content, wire_jobs.WhyDocument)
    assert told.json()["reason"] == "no_worker"
    await plane.store.workers.register([Presence(worker_id="w", facts=WorkerFacts(queues=("default",)))])
    told = await client.get(f"/jobs/{second['job_id']}/why")
    assert told.status_code == 200
    exact(told.content, wire_jobs.WhyDocument)
    assert told.json() == {
        "job_id": second["job_id"],
        "state": "scheduled",
        "reason": "position",
        "sentence": "1 job is ahead of it in queue 'default'.",
        "until": None,
        "ahead": 1,
        "blocked_by": [],
    }
    waiting = await submit(client, depends_on=[first["job_id"]])
    told = await client.get(f"/jobs/{waiting['job_id']}/why")
    exact(told.content, wire_jobs.WhyDocument)
    assert [blocker["job_id"] for blocker in told.json()["blocked_by"]] == [first["job_id"]]


async def test_nobody_elses_job_is_explained(client: httpx.AsyncClient, plane: Plane) -> None:
    mine = await submit(client)
    async with plane.client("read", requester="bob") as other:
        assert (await other.get(f"/jobs/{mine['job_id']}/why")).status_code == 404
    assert (await client.get("/jobs/nonsense/why")).status_code == 404
