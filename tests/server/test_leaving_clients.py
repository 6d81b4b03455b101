"""A worker that leaves before its turn comes to the claim: nothing is claimed for it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from euterpe.model.state import State
from euterpe.model.submitting.submission import Submission
from euterpe.server.http.asgi import ClientPresence
from tests.server.plane import Plane

TURN = b'{"worker_id": "leaver", "held": [], "claim": {"streams": ["default"], "max_jobs": 5}}'


async def test_nothing_is_claimed_for_a_worker_that_left_while_its_turn_was_at_something_else(
    plane: Plane, monkeypatch: pytest.MonkeyPatch
) -> None:
    submitted = await plane.store.submit(Submission(type="t", requester_id="vesta"))
    under_way, left, claimed = asyncio.Event(), asyncio.Event(), asyncio.Event()
    coordinator, ends = plane.app._coordinator, ClientPresence.ends
    claim = coordinator.claim

    async def until_it_left(*_: Any) -> int:
        under_way.set()
        await left.wait()
        return 0

    def noted_end(presence: ClientPresence) -> None:
        ends(presence)
        left.set()

    async def noted_claim(*said: Any) -> None:
        try:
            await claim(*said)
        finally:
            claimed.set()

    monkeypatch.setattr(type(plane.store.sweeps), "release_unbegun", until_it_left)
    monkeypatch.setattr(ClientPresence, "ends", noted_end)
    monkeypatch.setattr(coordinator, "claim", noted_claim)
    reader, writer = await asyncio.open_connection("127.0.0.1", plane.port)
    head = (
        f"Host: localhost\r\nAuthorization: Bearer {await plane.key('worker')}\r\nContent-Length: {len(TURN)}\r\n\r\n"
    )
    writer.write(b"POST /internal/worker/turn HTTP/1.1\r\n" + head.encode() + TURN)
    async with asyncio.timeout(30):
        await under_way.wait()
        writer.close()
        assert await reader.read() == b""
        await claimed.wait()
    job = await plane.store.get(submitted.job_id)
    assert (job.state, job.attempt_count) == (State.SCHEDULED, 0)
