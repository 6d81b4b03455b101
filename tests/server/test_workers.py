"""Which workers are alive, over HTTP: those that register in a turn, and those of other languages that only claim."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from euterpe.model.errors import StoreUnavailable
from euterpe.model.submitting.submission import Submission
from euterpe.wire.workers import WorkersDocument
from tests.server.plane import Plane
from tests.server.test_jobs_api import exact
from tests.server.test_worker_protocol import eventually

CLAIM, HEARTBEAT, TURN = (f"/internal/worker/{name}" for name in ("claim", "heartbeat", "turn"))
TOLD: dict[str, Any] = {
    "queues": ["default", "mail"],
    "types": ["report"],
    "slots": 20,
    "running": 3,
    "up_seconds": 60.5,
    "host": "web-1",
    "pid": 4711,
    "version": "1.2",
    "breakers": [{"queue": "mail", "type": "report", "state": "open", "retry_in_seconds": 30}],
}


async def listed(plane: Plane) -> list[dict[str, Any]]:
    async with plane.client("admin") as admin:
        told = await admin.get("/workers")
    assert told.status_code == 200
    exact(told.content, WorkersDocument)
    found: list[dict[str, Any]] = told.json()["workers"]
    return found


async def test_a_worker_registers_in_a_turn_and_leaves_in_another(plane: Plane, client: httpx.AsyncClient) -> None:
    assert (await client.post(TURN, json={"worker_id": "w", "registration": TOLD})).status_code == 200
    (worker,) = await listed(plane)
    (stored,) = await plane.store.workers.list()
    assert worker["worker_id"] == "w"
    assert worker["breakers"][0]["state"] == "open"
    assert stored.open_until("mail", "report") == stored.seen_at + 30_000_000
    assert stored.seen_at - stored.started_at == 60_500_000
    told = ("queues", "types", "slots", "running", "host", "pid", "version")
    assert [worker[name] for name in told] == [TOLD[name] for name in told]
    await client.post(TURN, json={"worker_id": "w", "registration": {"leaving": True}})
    assert await listed(plane) == []


async def test_a_claim_is_taken_for_a_registration_where_the_worker_makes_none(
    plane: Plane, client: httpx.AsyncClient
) -> None:
    ask = {"worker_id": "shell", "streams": ["mail"], "types": ["letter"], "max_wait_ms": 0}
    await client.post(CLAIM, json=ask)
    await eventually(lambda: listed(plane))
    (worker,) = await listed(plane)
    assert (worker["worker_id"], worker["queues"], worker["types"]) == ("shell", ["mail"], ["letter"])
    assert (worker["slots"], worker["running"], worker["host"]) == (None, None, None)


async def test_a_worker_that_registers_itself_is_not_registered_by_its_claims(
    plane: Plane, client: httpx.AsyncClient
) -> None:
    own = {"x-euterpe-registration": "own"}
    await client.post(CLAIM, json={"worker_id": "ours", "streams": ["default"], "max_wait_ms": 0}, headers=own)
    await client.post(CLAIM, json={"worker_id": "shell", "streams": ["default"], "max_wait_ms": 0})
    await eventually(lambda: listed(plane))
    assert [worker["worker_id"] for worker in await listed(plane)] == ["shell"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"queues": "default"},
        {"queues": ["q"] * 51},
        {"slots": -1},
        {"up_seconds": 1e300},
        {"breakers": {"q": {"state": "closed"}}},
        {"host": "nul\0"},
        {"version": "v" * 101},
    ],
)
async def test_a_registration_that_makes_no_sense_is_refused(
    plane: Plane, client: httpx.AsyncClient, wrong: dict[str, Any]
) -> None:
    said = {"worker_id": "w", "registration": TOLD | wrong}
    assert (await client.post(TURN, json=said)).status_code == 422
    assert await plane.store.workers.list() == []


async def test_reports_go_on_where_a_worker_cannot_be_registered(
    plane: Plane, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(_: object) -> None:
        raise StoreUnavailable("not now")

    monkeypatch.setattr(plane.store.workers, "register", refuse)
    await plane.store.submit(Submission(type="report"))
    claim = {"streams": ["default"], "max_jobs": 1}
    turn = await client.post(TURN, json={"worker_id": "w", "registration": TOLD, "claim": claim})
    assert turn.status_code == 200
    assert len(turn.json()["jobs"]) == 1
    alone = await client.post(TURN, json={"worker_id": "w", "registration": TOLD})
    assert alone.status_code == 503


async def test_only_an_admin_reads_who_is_alive(plane: Plane, client: httpx.AsyncClient) -> None:
    assert (await client.get("/workers")).status_code == 403
    async with plane.client("admin") as admin:
        assert (await admin.get("/workers", params={"limit": "0"})).status_code == 422
