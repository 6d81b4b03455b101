"""Children of a job that an HTTP worker runs: under its lease, all or none, and once however often it is asked."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from euterpe.model.dependency import Dependency
from euterpe.model.state import State
from euterpe.model.submitting.submission import Submission
from tests.conformance.clock import FrozenClock
from tests.server.plane import Plane, claim_one, lease_of, running_plane

SPAWN = "/internal/worker/spawn"
COMPLETE = "/internal/worker/complete"
Json = dict[str, Any]


async def parent_of(plane: Plane, client: httpx.AsyncClient, requester: str = "vesta") -> Json:
    await plane.store.submit(Submission(type="parent", requester_id=requester))
    return await claim_one(client)


async def count(plane: Plane) -> int:
    return sum((await plane.store.stats()).by_state.values())


async def test_children_belong_to_the_parents_requester_and_fan_ins_wait_for_them(
    plane: Plane, client: httpx.AsyncClient
) -> None:
    parent = await parent_of(plane, client, "ceres")
    summary = await plane.store.submit(
        Submission(type="summary", requester_id="ceres", depends_on=(parent["job_id"],), dependency=Dependency.FAN_IN)
    )
    jobs = [{"type": "first", "ref": "a"}, {"type": "second", "depends_on": ["#a"]}]
    answer = (await client.post(SPAWN, json=lease_of(parent) | {"jobs": jobs})).json()
    assert (answer["ok"], [job["replayed"] for job in answer["jobs"]]) == (True, [False, False])
    children = [await plane.store.get(job["job_id"], "ceres") for job in answer["jobs"]]
    assert [(c.parent_id, c.state) for c in children] == [
        (parent["job_id"], State.SCHEDULED),
        (parent["job_id"], State.PENDING),
    ]
    assert (await plane.store.get(summary.job_id)).pending_dependencies == 3


@pytest.mark.parametrize(
    "wrong",
    [
        {"lease_token": "somebody-elses"},
        {"attempt_id": "00000000-0000-4000-8000-000000000000:1"},
        {"attempt_id": "nonsense"},
        {"job_id": "00000000-0000-4000-8000-000000000000", "attempt_id": "00000000-0000-4000-8000-000000000000:1"},
    ],
)
async def test_a_lease_that_is_not_the_workers_stores_nothing(
    plane: Plane, client: httpx.AsyncClient, wrong: Json
) -> None:
    parent = await parent_of(plane, client)
    refused = await client.post(SPAWN, json=lease_of(parent) | {"jobs": [{"type": "child"}]} | wrong)
    assert (refused.status_code, refused.json()["code"], refused.json()["ok"]) == (409, "stale_lease", False)
    assert await count(plane) == 1


async def test_an_ended_attempt_spawns_nothing_more(plane: Plane, client: httpx.AsyncClient) -> None:
    parent = await parent_of(plane, client)
    await client.post(COMPLETE, json=lease_of(parent))
    refused = await client.post(SPAWN, json=lease_of(parent) | {"jobs": [{"type": "child"}]})
    assert refused.status_code == 409
    assert await count(plane) == 1


async def test_one_bad_child_is_named_and_none_is_stored(plane: Plane, client: httpx.AsyncClient) -> None:
    parent = await parent_of(plane, client)
    jobs = [{"type": "good"}, {"type": "bad", "timeout": "soon"}]
    refused = await client.post(SPAWN, json=lease_of(parent) | {"jobs": jobs})
    assert (refused.status_code, refused.json()["pointer"]) == (422, "/jobs/1/timeout")
    unknown = [{"type": "good"}, {"type": "bad", "depends_on": ["00000000-0000-4000-8000-000000000000"]}]
    refused = await client.post(SPAWN, json=lease_of(parent) | {"jobs": unknown})
    assert (refused.status_code, refused.json()["code"]) == (422, "unknown_dependency")
    assert await count(plane) == 1


async def test_the_same_request_with_a_key_gets_the_first_answer_even_after_the_parents_end(
    plane: Plane, client: httpx.AsyncClient
) -> None:
    parent = await parent_of(plane, client)
    said = lease_of(parent) | {"jobs": [{"type": "child"}, {"type": "child"}], "idempotency_key": "pages"}
    first = (await client.post(SPAWN, json=said)).json()["jobs"]
    await client.post(COMPLETE, json=lease_of(parent))
    again = (await client.post(SPAWN, json=said)).json()["jobs"]
    assert [job["job_id"] for job in again] == [job["job_id"] for job in first]
    assert [job["replayed"] for job in first + again] == [False, False, True, True]
    assert await count(plane) == 3
    other = await client.post(SPAWN, json=said | {"jobs": [{"type": "other"}]})
    assert (other.status_code, other.json()["code"]) == (409, "idempotency_conflict")
    # Whoever has not the token cannot ask for the answer by the key.
    assert (await client.post(SPAWN, json=said | {"lease_token": "guessed"})).json()["code"] == "stale_lease"


async def test_past_the_deadline_nothing_is_spawned(url: str) -> None:
    clock = FrozenClock()
    async with running_plane(url, clock=clock) as plane, plane.client() as client:
        parent = await parent_of(plane, client)
        clock.advance(minutes=31)
        refused = await client.post(SPAWN, json=lease_of(parent) | {"jobs": [{"type": "child"}]})
        assert refused.status_code == 409
        assert await count(plane) == 1
