"""A transcode that is cancelled leaves nothing behind, wherever it was."""

from __future__ import annotations

import asyncio

import pytest

from tests.transcode.service.holding import PLACES, hold_attempts
from tests.transcode.service.studio import MP3, TOMORROW, Studio


async def test_a_cancelled_transcode_leaves_no_files_in_any_stage(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = {place: asyncio.Event() for place in PLACES}
    hold_attempts(monkeypatch, lambda place: waiting[place].set())
    studio.start_worker(lease="5s")
    wav = {"id": "wav", "kind": "audio", "preset": "wav_16"}
    ids = [await studio.accepted(studio.body(MP3, wav, metadata={"hold": place})) for place in PLACES]
    async with asyncio.timeout(60):
        await asyncio.gather(*(event.wait() for event in waiting.values()))
    assert studio.published() == ["mp3.mp3"]
    for job_id in ids:
        answer = await studio.client.post(f"/jobs/{job_id}/cancel", json={})
        assert answer.status_code == 200
    for job_id in ids:
        done = await studio.until(job_id)
        assert (done["status"], done["outputs"]) == ("cancelled", None)
    assert studio.published() == []
    assert studio.leftovers() == []
    ends = [body for body in await studio.told(4 + 4 + 3 + 2 + 1) if body["job"]["terminal"]]
    assert {body["type"] for body in ends} <= {"transcode.cancelled"}


async def test_a_waiting_transcode_is_cancelled_at_once(studio: Studio) -> None:
    job_id = await studio.accepted(studio.body(not_before=TOMORROW))
    waiting = await studio.status(job_id)
    assert (waiting["status"], waiting["next_attempt_at"]) == ("queued", TOMORROW.replace("+00:00", "Z"))
    await studio.client.post(f"/jobs/{job_id}/cancel", json={})
    assert (await studio.status(job_id))["status"] == "cancelled"
    refused = await studio.client.put(f"/transcode/{job_id}/credentials", json={}, headers={"If-Match": '"1"'})
    assert refused.status_code == 409
