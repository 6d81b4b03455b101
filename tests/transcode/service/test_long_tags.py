"""A source with megabytes of lyrics: the API of the same process keeps answering, and the lyrics arrive."""

from __future__ import annotations

import asyncio
import ctypes
import time
from pathlib import Path

import pytest

from euterpe.transcode.media.ffmpeg.limits import MediaLimits
from euterpe.transcode.media.ffmpeg.tools import Tools
from euterpe.transcode.media.probing.probe import probe
from tests import patience
from tests.transcode.media.making import Media
from tests.transcode.service.conftest import put_source
from tests.transcode.service.studio import Studio

LINE = "sung by many, = ; # é\n"
PR_GET_DUMPABLE = 3


def with_lyrics(media: Media, size: int) -> Path:
    lyrics = (LINE * (size // len(LINE) + 1))[:size].strip()
    escaped = "".join(f"\\{letter}" if letter in "=;#\\\n" else letter for letter in lyrics)
    (media.folder / f"{size}.txt").write_text(f";FFMETADATA1\nLYRICS={escaped}\n")
    inputs = ("-f", "lavfi", "-i", "sine=d=1", "-f", "ffmetadata", "-i", f"{size}.txt")
    return media.make(f"{size}.flac", *inputs, "-map_metadata", "1")


@pytest.mark.parametrize("size", [600_000, 8_000_000])
async def test_the_api_answers_while_a_long_tag_is_read_and_written(
    size: int, studio: Studio, media: Media, tools: Tools
) -> None:
    put_source(studio, with_lyrics(media, size))
    studio.start_worker()
    job_id = await studio.accepted(studio.body({"id": "a", "kind": "audio", "preset": "flac"}))
    ending = asyncio.create_task(studio.until(job_id))
    slowest, answered_at = 0.0, time.monotonic()
    while not ending.done():
        assert (await studio.client.get("/healthz")).status_code == 200
        slowest = max(slowest, time.monotonic() - answered_at)
        answered_at = time.monotonic()
        await asyncio.sleep(0.01)
    done = await ending
    assert done["status"] == "succeeded", done
    info = await probe(studio.root / done["outputs"][0]["key"], tools=tools, limits=MediaLimits())
    assert len(info.tags["lyrics"]) == pytest.approx(size, abs=len(LINE))
    patience.in_time(slowest, 2.0, "the API did not answer")


async def test_a_process_that_holds_credentials_cannot_be_dumped(studio: Studio) -> None:
    assert ctypes.CDLL(None).prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 0
    studio.start_worker()
    job_id = await studio.accepted(studio.body())
    assert (await studio.until(job_id))["status"] == "succeeded", "its children and its keeper work all the same"
