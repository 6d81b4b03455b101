"""A worker that froze and lost its job: what it does when it wakes touches nothing."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from euterpe.transcode.handler import job, uploading
from euterpe.worker.cancel_watch import CancelWatch
from tests.transcode.service.studio import Studio


class Frozen:
    """The first attempt stops at `place` until it is thawed. Its lease is long, so no heartbeat tells it anything, and
    its worker is deaf to cancels."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.thawed = asyncio.Event()
        self.over = asyncio.Event()

    async def stop_here(self) -> None:
        self.reached.set()
        await self.thawed.wait()


@pytest.fixture
def frozen(monkeypatch: pytest.MonkeyPatch) -> Frozen:
    made = Frozen()
    run = job._Attempt.run

    async def watched(attempt: Any) -> Any:
        try:
            return await run(attempt)
        finally:
            made.over.set()

    monkeypatch.setattr(job._Attempt, "run", watched)
    monkeypatch.setattr(CancelWatch, "wake", lambda _watch: None)
    return made


async def take_away(studio: Studio, job_id: str) -> None:
    answer = await studio.client.post(f"/jobs/{job_id}/cancel", json={"force": True})
    assert answer.json()["state"] == "cancelled"


async def test_a_worker_that_lost_its_job_publishes_nothing(
    studio: Studio, frozen: Frozen, monkeypatch: pytest.MonkeyPatch
) -> None:
    enter = job._Attempt._enter

    async def frozen_enter(attempt: Any, stage: str) -> None:
        await enter(attempt, stage)
        if stage == "uploading":
            await frozen.stop_here()

    monkeypatch.setattr(job._Attempt, "_enter", frozen_enter)
    studio.start_worker(lease="60s")
    job_id = await studio.accepted(studio.body())
    async with asyncio.timeout(40):
        await frozen.reached.wait()
        await take_away(studio, job_id)
        frozen.thawed.set()
        await frozen.over.wait()
    assert studio.published() == []
    assert (await studio.status(job_id))["status"] == "cancelled"


async def test_a_worker_that_lost_its_job_takes_nothing_back(
    studio: Studio, frozen: Frozen, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = uploading.Uploads._publish

    async def frozen_put(uploads: Any, *arguments: Any) -> Any:
        await put(uploads, *arguments)
        await frozen.stop_here()
        raise RuntimeError("it wakes, and fails")

    monkeypatch.setattr(uploading.Uploads, "_publish", frozen_put)
    studio.start_worker(lease="60s")
    job_id = await studio.accepted(studio.body())
    async with asyncio.timeout(40):
        await frozen.reached.wait()
        await take_away(studio, job_id)
        (studio.root / "out/mp3.mp3").write_bytes(b"of a newer attempt")
        frozen.thawed.set()
        await frozen.over.wait()
    assert studio.published() == ["mp3.mp3"]
