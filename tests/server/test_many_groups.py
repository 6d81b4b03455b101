"""Many workers that wait for different queues: they poll in turns, and still start at once what is announced."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import httpx
import pytest

from euterpe.model.claims.exchange import ClaimRequest, Report
from euterpe.model.job import Claim
from euterpe.server import long_poll as coordinating
from euterpe.server.long_poll import LongPoll, Waiter
from euterpe.wakeups.local import LocalWakeups
from tests.server.plane import Plane

CLAIM = "/internal/worker/claim"


async def test_many_groups_poll_no_more_than_a_few_do(monkeypatch: pytest.MonkeyPatch) -> None:
    looks, pauses_s = 0, list[float]()

    async def nothing(_request: ClaimRequest, _workers: Sequence[str]) -> list[Claim]:
        nonlocal looks
        looks += 1
        return []

    async def release(_finished: Sequence[Report]) -> None:
        raise AssertionError("nothing was claimed")

    async def pause(_group: coordinating._Group, seconds: float) -> bool:
        pauses_s.append(seconds)
        return await until_woken(_group, 3600)

    until_woken = coordinating._Group._pause
    monkeypatch.setattr(coordinating._Group, "_pause", pause)
    coordinator = LongPoll(nothing, release, LocalWakeups(), lease_ttl_us=1, poll_s=(0.1, 0.1))
    waiting = [
        asyncio.get_running_loop().create_task(coordinator.claim(Waiter("w", 1), [f"q{i}"], None, 60))
        for i in range(400)
    ]
    async with asyncio.timeout(30):
        while len(pauses_s) < 400:  # noqa: ASYNC110  # everybody looks once at the start
            await asyncio.sleep(0.01)
        pauses_s.clear()
        coordinator.wake_all()
        while len(pauses_s) < 400:  # noqa: ASYNC110  # and once more, now that all of them are there
            await asyncio.sleep(0.01)
    assert looks == 800
    assert sum(1 / pause_s for pause_s in pauses_s) < 1_000, "each of them polls as if it were alone"
    coordinator.drain()
    await asyncio.gather(*waiting)
    await coordinator.close()


async def test_work_that_is_announced_starts_at_once_however_many_wait(plane: Plane, client: httpx.AsyncClient) -> None:
    asks = [{"worker_id": "w", "streams": [f"q{i}"], "max_wait_ms": 20_000} for i in range(80)]
    claims = [asyncio.get_running_loop().create_task(client.post(CLAIM, json=ask)) for ask in asks]
    async with asyncio.timeout(30):
        while len(plane.app._coordinator._groups) < len(asks):  # noqa: ASYNC110  # the server takes them one by one
            await asyncio.sleep(0.01)
        await client.post("/jobs", json={"type": "t", "queue": "q79"})
        assert (await claims[79]).json()["claimed"] is True
    plane.app.drain()
    await asyncio.gather(*claims)


async def test_more_groups_than_there_is_room_for_are_told_to_come_later(
    plane: Plane, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coordinating, "GROUP_LIMIT", 1)
    assert (await client.post(CLAIM, json={"worker_id": "w", "streams": ["a"], "max_wait_ms": 0})).status_code == 200
    refused = await client.post(CLAIM, json={"worker_id": "w", "streams": ["b"], "max_wait_ms": 0})
    assert (refused.status_code, refused.json()["code"]) == (503, "too_many_groups")
    assert "retry-after" in refused.headers
    assert (await client.post(CLAIM, json={"worker_id": "w", "streams": ["a"], "max_wait_ms": 0})).status_code == 200
