"""A worker that is killed while it uploads: nothing is visible, and the next attempt clears and finishes."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

from euterpe.transcode.storage.ports import OpenUpload, UploadAttempt
from tests.transcode.storage import killed_writer
from tests.transcode.storage.conftest import S3Place
from tests.transcode.storage.gate import Seen
from tests.transcode.storage.parts import JOB, MIB, Claim, MemoryLedger, random_file, sha256_of


def uploading(number: int) -> str:
    return ["begin", "part 1", "part 2", "part 3", "completion"][number]


def is_step(seen: Seen, number: int) -> bool:
    match number:
        case 0:
            return "uploads" in seen.query
        case 4:
            return seen.method == "POST" and "uploadId" in seen.query
        case _:
            return seen.query.get("partNumber") == str(number)


@pytest.mark.parametrize("number", range(5), ids=uploading)
async def test_a_worker_killed_at_each_step_leaves_nothing_visible(place: S3Place, tmp_path: Path, number: int) -> None:
    expected = random_file(tmp_path / "a", 3 * MIB - 7)
    noted = tmp_path / "ledger"
    noted.touch()
    place.gate.hold = asyncio.Event()
    place.gate.held = lambda seen: is_step(seen, number)
    keys = place.keys
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", killed_writer.__name__, place.gate.url, place.bucket, keys.access_key_id,
        keys.secret_access_key, str(tmp_path / "a"), str(noted), stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    await place.gate.reached.wait()
    child.kill()
    await child.communicate()
    place.gate.hold.set()
    place.gate.hold = None
    assert place.folder is not None
    assert not (place.folder / "out/a").exists()

    ledger = MemoryLedger()
    for word, key, upload_id in map(json.loads, noted.read_text().splitlines()):
        assert word == "opened"
        await ledger.opened(UploadAttempt(JOB, 1), OpenUpload(key, upload_id))
    writer = place.writer(ledger=ledger, version=2)
    assert await writer.discard_leftovers() == (0 if number == 0 else 1)
    stored = await writer.put(tmp_path / "a", "a", content_type="x/y", fence=Claim(2).fence)
    await writer.close()
    assert stored.sha256 == expected == sha256_of(place.folder / "out/a")
    assert ledger.rows == []
