"""A worker that is killed in the middle: another one ends its jobs, and nothing of it is left."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from euterpe.transcode.media.ffmpeg.tools import Tools
from tests.transcode.service.conftest import put_source
from tests.transcode.service.holding import PLACES
from tests.transcode.service.studio import MP3, studio_on

ROOT = Path(__file__).parents[3]


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    found: str = request.getfixturevalue("sqlite_url" if request.param == "sqlite" else "fresh_postgres_url")
    return found


async def test_jobs_of_a_worker_killed_in_any_stage_are_ended_by_another(
    url: str, tmp_path: Path, tools: Tools, tone: Path
) -> None:
    async with studio_on(url, tmp_path, tools, register=False) as studio:
        put_source(studio, tone)
        wav = {"id": "wav", "kind": "audio", "preset": "wav_16"}
        ids = {
            place: await studio.accepted(
                studio.body(
                    *(MP3, wav),
                    destination={"type": "local", "prefix": f"out/{place}/"},
                    metadata={"hold": place},
                    status_webhook_url=None,
                )
            )
            for place in PLACES
        }
        victim = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.transcode.service.held_worker", url, str(tmp_path)),
            stdout=asyncio.subprocess.PIPE,
            cwd=ROOT,
        )
        assert victim.stdout is not None
        async with asyncio.timeout(60):
            reached = {(await victim.stdout.readline()).decode().strip() for _ in PLACES}
        assert reached == set(PLACES)
        held = {place: (await studio.status(ids[place]))["status"] for place in PLACES}
        assert held == {**{place: place for place in PLACES[:3]}, "published": "uploading"}
        victim.kill()
        await victim.wait()
        assert studio.leftovers(), "the killed worker had files in hand"

        studio.transcoding.register(tools)
        studio.start_worker()
        for place in PLACES:
            done = await studio.until(ids[place])
            assert (done["status"], done["attempt_count"], done["claim_version"]) == ("succeeded", 2, 2)
        assert studio.published() == sorted(f"{place}/{name}" for place in PLACES for name in ("mp3.mp3", "wav.wav"))
        assert studio.leftovers() == []
