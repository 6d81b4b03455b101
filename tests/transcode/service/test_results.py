"""The result of a transcode: bounded, whatever its outputs are, and complete in its numbers."""

from __future__ import annotations

from typing import Any

import msgspec

from euterpe.transcode.handler.uploading import LISTED_BYTES, bounded
from tests.transcode.service.studio import MP3, Studio


def output_of(files: int, name: str) -> dict[str, Any]:
    keys = [f"{name}/{'k' * 900}/{number:05}.m4s" for number in range(files - 1)]
    listed = [f"{name}/master.m3u8", *keys]
    return {"id": name, "file_count": files, "files": [{"key": key, "etag": '"x"'} for key in listed]}


def test_lists_of_files_are_shortened_the_longest_first() -> None:
    small, large = bounded([output_of(5, "small"), output_of(4_000, "large")])
    assert (len(small["files"]), small["file_count"]) == (5, 5)
    assert [file["key"] for file in large["files"]] == ["large/master.m3u8"]
    assert large["file_count"] == 4_000


def test_fifty_outputs_of_many_files_fit_into_a_result() -> None:
    documents = bounded([output_of(1_000, f"hls{number}") for number in range(50)])
    assert len(msgspec.json.encode(documents)) < LISTED_BYTES + 50_000
    playlists = [{**output_of(1, "x"), "files": [{"key": f"{'k' * 1000}.m3u8"}] * 600} for _ in range(3)]
    assert sum(len(msgspec.json.encode(each["files"])) for each in bounded(playlists)) <= LISTED_BYTES


async def test_a_transcode_that_succeeded_is_at_100_percent(studio: Studio) -> None:
    """Also one that had nothing to encode, because an equal one was made before."""
    studio.start_worker()
    for _ in range(2):
        done = await studio.until(await studio.accepted(studio.body(MP3, reuse=True)))
        assert (done["status"], done["progress"]["percent"]) == ("succeeded", 100.0)
    told = [body for body in await studio.told(10) if body["type"] == "transcode.succeeded"]
    assert [body["job"]["progress"]["percent"] for body in told] == [100.0, 100.0]
