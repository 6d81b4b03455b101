"""A re-encode over what an earlier job published: until the new outputs are whole, the old ones stay and play."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from euterpe.transcode.handler import uploading
from euterpe.transcode.media.ffmpeg.tools import Tools
from tests.servers.s3 import RcloneServer
from tests.transcode.service.conftest import put_source
from tests.transcode.service.holding import hold_attempts
from tests.transcode.service.studio import MP3, Document, Studio, studio_on

ROOT = Path(__file__).parents[3]
BUCKET = "live"
HLS = {"id": "hls", "kind": "hls", "segment_seconds": 1, "variants": [{"preset": "aac_96"}]}
PREFIX = "live/42/"


@pytest.fixture(scope="module")
def rclone() -> Iterator[RcloneServer]:
    with RcloneServer() as server:
        (server.data / BUCKET).mkdir()
        yield server


@dataclass
class Live:
    """The place `live/42/` of a running service, and what lies there."""

    studio: Studio
    folder: Path
    request: Document

    def body(self, **more: Any) -> Document:
        return self.studio.body(HLS, MP3, status_webhook_url=None, **self.request, **more)

    async def publish_the_old(self) -> dict[str, bytes]:
        self.studio.start_worker()
        done = await self.studio.until(await self.studio.accepted(self.body()))
        assert done["status"] == "succeeded", done
        assert self.plays()
        return self.files()

    def files(self) -> dict[str, bytes]:
        paths = [path for path in self.folder.rglob("*") if path.is_file()]
        return {str(path.relative_to(self.folder)): path.read_bytes() for path in paths}

    def plays(self) -> bool:
        """Whether the master names playlists, and they name segments, that are all there."""
        files = self.files()

        def named(playlist: str) -> list[str]:
            above = playlist.rpartition("/")[0]
            lines = files.get(playlist, b"is not there").decode().splitlines()
            return [f"{above}/{line}" for line in lines if line and not line.startswith("#")]

        playlists = named("hls/master.m3u8")
        return bool(playlists) and all(segment in files for each in playlists for segment in named(each))


@pytest.fixture(params=["local", "s3"])
async def live(
    request: pytest.FixtureRequest, sqlite_url: str, tmp_path: Path, tools: Tools, tone: Path, rclone: RcloneServer
) -> AsyncIterator[Live]:
    async with studio_on(sqlite_url, tmp_path, tools) as studio:
        put_source(studio, tone)
        if request.param == "local":
            yield Live(studio, studio.root / PREFIX, {"destination": {"type": "local", "prefix": PREFIX}})
            return
        prefix = f"{tmp_path.name}/{PREFIX}"
        place = {"type": "s3", "endpoint": rclone.url, "bucket": BUCKET, "prefix": prefix}
        keys = {"access_key_id": rclone.access_key_id, "secret_access_key": rclone.password}
        said = {"destination": place, "credentials": {"destination": keys}}
        yield Live(studio, rclone.data / BUCKET / prefix, said)


async def test_the_old_outputs_play_while_new_ones_upload_and_stay_when_the_job_is_cancelled(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = await live.publish_the_old()
    uploaded = asyncio.Event()
    hold_attempts(monkeypatch, lambda _: uploaded.set())
    job_id = await live.studio.accepted(live.body(metadata={"hold": "staged"}))
    await asyncio.wait_for(uploaded.wait(), 40)
    assert old.items() < live.files().items(), "new segments lie beside the old ones, which are as they were"
    await live.studio.client.post(f"/jobs/{job_id}/cancel", json={})
    assert (await live.studio.until(job_id))["status"] == "cancelled"
    assert live.files() == old


async def test_a_job_that_fails_between_two_outputs_deletes_nothing_that_was_there(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = await live.publish_the_old()
    publish = uploading.Uploads._publish

    async def failing(uploads: Any, head: Any) -> Any:
        if head.name == "mp3.mp3":
            raise RuntimeError("the second output cannot be published")
        return await publish(uploads, head)

    monkeypatch.setattr(uploading.Uploads, "_publish", failing)
    failed = await live.studio.until(await live.studio.accepted(live.body(max_attempts=1)))
    assert failed["status"] == "dead_letter"
    assert live.plays()
    assert old.keys() < live.files().keys()
    assert live.files()["mp3.mp3"] == old["mp3.mp3"]


async def test_a_job_that_fails_before_it_publishes_removes_all_its_own_and_nothing_else(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = await live.publish_the_old()

    async def failing(_uploads: Any, _head: Any) -> Any:
        raise RuntimeError("nothing can be published")

    monkeypatch.setattr(uploading.Uploads, "_publish", failing)
    failed = await live.studio.until(await live.studio.accepted(live.body(max_attempts=1)))
    assert failed["status"] == "dead_letter"
    assert live.files() == old


@pytest.mark.parametrize("place", ["staged", "published"])
async def test_a_worker_killed_in_the_middle_leaves_a_whole_output_and_the_next_attempt_tidies(
    live: Live, tmp_path: Path, place: str
) -> None:
    old = await live.publish_the_old()
    await live.studio.stop_workers()
    job_id = await live.studio.accepted(live.body(metadata={"hold": place}))
    victim = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.transcode.service.held_worker", live.studio.url, str(tmp_path)),
        stdout=asyncio.subprocess.PIPE,
        cwd=ROOT,
    )
    assert victim.stdout is not None
    async with asyncio.timeout(60):
        assert (await victim.stdout.readline()).decode().strip() == place
    victim.kill()
    await victim.wait()
    assert live.plays()
    left = live.files()
    assert old.keys() < left.keys()
    replaced = {name for name in old if left[name] != old[name]}
    assert replaced == (set() if place == "staged" else {"hls/master.m3u8"})

    live.studio.start_worker()
    done = await live.studio.until(job_id)
    assert (done["status"], done["claim_version"]) == ("succeeded", 2)
    assert live.plays()
    files = live.files()
    assert old.keys() < files.keys(), "players that hold the old playlist find its segments"
    assert not [name for name in files if f"attempt-{job_id}-1/" in name]
    new = {file["key"].partition(PREFIX)[2] for file in done["outputs"][0]["files"]}
    assert files.keys() == old.keys() | new | {"mp3.mp3"}
