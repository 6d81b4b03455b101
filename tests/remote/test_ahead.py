"""What a worker over HTTP claims ahead of its free slots: it is asked for and charged as beside the database."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from euterpe import Queue
from euterpe.model.claims.exchange import ClaimRequest, Report, SettleResult
from euterpe.model.claims.outcome import Success
from euterpe.model.errors import InvalidInput
from euterpe.model.state import State
from euterpe.queue.queue import core_of
from euterpe.stores.remote.session import ControlPlaneSession, HttpReply
from euterpe.stores.remote.store import HttpStore, with_token
from tests.remote.conftest import Remote
from tests.worker.floor import Floor, in_state

JOB: dict[str, Any] = {
    "lease_token": "t",
    "stream": {"name": "default", "message_id": "m"},
    "queue": "default",
    "payload": {},
    "lease_ttl_seconds": 60.0,
    "type": "work",
    "attempt": 1,
    "max_attempts": 3,
    "timeout_seconds": 60.0,
    "lease_expires_at": "2026-01-01T00:01:00.000000Z",
    "priority": "normal",
    "created_at": "2026-01-01T00:00:00.000000Z",
}


@pytest.fixture
def floor(remote: Remote, tmp_path: Path) -> Iterator[Floor]:
    floor = Floor(with_token(remote.base_url, remote.key), tmp_path)
    yield floor
    floor.dismiss()


@pytest.fixture
async def client(url: str, remote: Remote) -> AsyncIterator[Queue]:
    """At the database of the control plane."""
    assert remote.url == url
    async with Queue(url) as queue:
        yield queue


async def test_a_worker_over_http_that_dies_is_charged_for_what_it_had_begun_alone(client: Queue, floor: Floor) -> None:
    first = await client.submit("gated", priority=0)
    poison = await client.submit("dies_on_the_loop", max_attempts=2, priority=1)
    waiting = [await client.submit("quick", {"value": n}) for n in range(6)]
    worker = floor.start(concurrency=1, ahead=["dies_on_the_loop", "quick"])
    await floor.noted("begun", first)
    for job in (poison, *waiting):
        await in_state(client, job, State.RUNNING)
    floor.open_gate()
    assert await worker.ended() == 7
    for job in waiting:
        assert (await in_state(client, job, State.SCHEDULED)).attempt_count == 0, "what never began is not charged"
    assert (await core_of(client).get(poison.id)).attempt_count == 1, "what began is charged"


class OlderPlane:
    """Knows nothing of claims ahead, and refuses one for no free slot; or a newer one, which answers in its place."""

    def __init__(self) -> None:
        self.gives = 1
        self.is_older = True
        self.claims: list[dict[str, Any] | None] = []

    async def post(self, _path: str, body: dict[str, Any], **_: Any) -> HttpReply:
        claim = body.get("claim")
        self.claims.append(claim)
        if self.is_older and claim is not None and claim["max_jobs"] == 0:
            raise InvalidInput("claim.max_jobs", "Expected `int` >= 1")
        jobs = [{"job_id": f"j{n}", "attempt_id": f"j{n}:1", **JOB} for n in range(self.gives if claim else 0)]
        settled = [{"ok": True} for _ in body["complete"]]
        answer: dict[str, Any] = {"complete": settled, "fail": [], "heartbeat": [], "jobs": jobs}
        if not self.is_older:
            answer["claims_ahead"] = True
        return HttpReply(msgspec.json.encode(answer), {})


async def test_an_older_control_plane_is_asked_for_free_slots_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    plane = OlderPlane()
    monkeypatch.setattr(ControlPlaneSession, "post", lambda _session, *said, **more: plane.post(*said, **more))
    store = HttpStore("http://127.0.0.1:1")
    ahead = ClaimRequest(worker_id="w", limit=0, prefetch=5, prefetch_types=("work",))
    _, claims = await store.exchange([], msgspec.structs.replace(ahead, limit=1))
    assert await store.exchange([], ahead) == ([], [])
    assert len(plane.claims) == 1, "it would refuse that"
    plane.is_older = False
    await store.exchange([], msgspec.structs.replace(ahead, limit=1))
    assert len((await store.exchange([], ahead))[1]) == 1
    plane.is_older = True
    ended = [Report(claims[0], Success())]
    assert await store.exchange(ended, ahead) == ([SettleResult(True, State.COMPLETED)], [])
    assert plane.claims[-2:] == [plane.claims[2], None], "refused, and what ended was told all the same"
    asked = len(plane.claims)
    assert await store.exchange([], ahead) == ([], [])
    assert len(plane.claims) == asked
