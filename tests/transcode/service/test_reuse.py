"""Equal requests of one requester make one encode, and every one of them its outputs and its webhook."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path
from typing import Any

import pytest

from euterpe.queue.queue import core_of
from euterpe.transcode.estimate import FEWEST_RUNS, RunHistory
from euterpe.transcode.handler import job as handler
from euterpe.transcode.media.encode import encode
from euterpe.transcode.schema.request import payload_of
from tests.sql_stores import sql
from tests.transcode.service.studio import MP3, Document, Studio


@pytest.fixture
def encodes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the folders in which something was encoded."""
    seen: list[str] = []

    async def counting(path: Path, *arguments: Any, **options: Any) -> Any:
        seen.append(path.parent.name)
        return await encode(path, *arguments, **options)

    monkeypatch.setattr(handler, "encode", counting)
    return seen


async def test_equal_requests_are_encoded_once_and_each_has_its_outputs(studio: Studio, encodes: list[str]) -> None:
    bodies = [studio.body(reuse=True, destination={"type": "local", "prefix": f"out/{i}/"}) for i in range(12)]
    ids = await asyncio.gather(*(studio.accepted(body) for body in bodies))
    studio.start_worker()
    ends = [await studio.until(job_id) for job_id in ids]
    assert [end["status"] for end in ends] == ["succeeded"] * 12, ends
    assert len(encodes) == 1
    doers = [end for end in ends if end["reused_from"] is None]
    assert len(doers) == 1
    assert {end["reused_from"] for end in ends} == {None, doers[0]["job_id"]}
    for i, end in enumerate(ends):
        (output,) = end["outputs"]
        assert output["key"] == f"out/{i}/mp3.mp3"
        assert output["sha256"] == hashlib.sha256((studio.root / output["key"]).read_bytes()).hexdigest()
    told = [body for body in await studio.told(12 * 5) if body["type"] == "transcode.succeeded"]
    assert sorted(body["outputs"][0]["key"] for body in told) == sorted(f"out/{i}/mp3.mp3" for i in range(12))
    assert studio.leftovers() == []


async def test_a_named_checksum_spares_the_fetch_and_the_same_place_needs_no_copy(
    studio: Studio, encodes: list[str]
) -> None:
    studio.start_worker()
    sha256 = hashlib.sha256((studio.root / "in/a.wav").read_bytes()).hexdigest()
    body = studio.body(reuse=True, source={"type": "local", "path": "in/a.wav", "sha256": sha256})
    first = await studio.until(await studio.accepted(body))
    (studio.root / "in/a.wav").unlink()
    again = await studio.until(await studio.accepted(body))
    assert again["outputs"] == first["outputs"]
    assert (again["reused_from"], again["source"]) == (first["job_id"], first["source"])
    assert len(encodes) == 1


async def test_what_differs_or_is_gone_or_was_not_asked_for_is_encoded(studio: Studio, encodes: list[str]) -> None:
    studio.start_worker()

    async def run(**more: object) -> Document:
        return await studio.until(await studio.accepted(studio.body(**more)))

    first = await run(reuse=True)
    await run()
    await run(reuse=True, outputs=[{**MP3, "preset": "mp3_192"}])
    assert len(encodes) == 3
    (studio.root / first["outputs"][0]["key"]).write_bytes(b"somebody wrote here")
    again = await run(reuse=True)
    assert again["reused_from"] is None
    assert len(encodes) == 4
    made = (studio.root / again["outputs"][0]["key"]).read_bytes()
    assert hashlib.sha256(made).hexdigest() == again["outputs"][0]["sha256"] == first["outputs"][0]["sha256"]


async def test_several_files_are_copied_whole(studio: Studio, encodes: list[str]) -> None:
    hls = {"id": "hls", "kind": "hls", "segment_seconds": 1, "variants": [{"preset": "aac_96"}]}
    bodies = [studio.body(hls, reuse=True, destination={"type": "local", "prefix": f"out/{i}/"}) for i in range(2)]
    studio.start_worker()
    first, second = [await studio.until(await studio.accepted(body)) for body in bodies]
    assert len(encodes) == 1
    assert second["reused_from"] == first["job_id"]
    files = [[file["key"].split("/", 2)[2] for file in end["outputs"][0]["files"]] for end in (first, second)]
    assert files[0] == files[1]
    for ours, theirs in zip(second["outputs"][0]["files"], first["outputs"][0]["files"], strict=True):
        assert (studio.root / ours["key"]).read_bytes() == (studio.root / theirs["key"]).read_bytes()


async def test_the_answer_and_the_status_tell_how_long_it_will_take(studio: Studio) -> None:
    body = studio.body(reuse=False)
    assert (await studio.post(body, "before")).json()["expected_seconds"] is None
    studio.start_worker()
    done = await studio.until(await studio.accepted(body))
    assert done["expected_seconds"] is None
    await studio.stop_workers()
    history = RunHistory(sql(core_of(studio.queue).store).engine)
    outputs = payload_of({**body, "source": body["source"], "destination": body["destination"]}).outputs
    for i in range(FEWEST_RUNS):
        await history.record(done["job_id"], outputs, 1000 * i, 2500)
    answer = await studio.post(body, "after")
    assert answer.json()["expected_seconds"] == 2.5
    for _ in range(5):
        await history.record(done["job_id"], outputs, 1000, 9000)
    again = await studio.post(body, "after")
    assert again.content == answer.content, "a replay gives the same bytes"
    assert (await studio.post(body, "before")).json()["expected_seconds"] is None
    assert (await studio.status(answer.json()["job_id"]))["expected_seconds"] == 2.5
