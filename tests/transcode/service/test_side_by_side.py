"""Outputs of one job are uploaded side by side, and each is hashed once."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path
from typing import Any

from euterpe.transcode.handler.progress import ProgressReporter
from euterpe.transcode.handler.uploading import Uploads
from euterpe.transcode.media.results import EncodedFile, EncodedOutput
from euterpe.transcode.schema.locations import LocalDestination
from euterpe.transcode.storage.local import LocalWriter, StagedFile
from euterpe.transcode.storage.local_root import LocalRoot
from euterpe.transcode.storage.ports import UploadAttempt
from tests.transcode.storage.parts import JOB, Claim


class Meeting(LocalWriter):
    """Stages a file when another one is being staged too."""

    barrier: asyncio.Barrier

    async def stage(self, path: Path, name: str, **said: Any) -> StagedFile:
        async with asyncio.timeout(20):
            await self.barrier.wait()
        return await super().stage(path, name, **said)


def output_of(path: Path) -> EncodedOutput:
    path.write_bytes(path.name.encode() * 1000)
    size = path.stat().st_size
    file = EncodedFile(name=f"{path.name}.mp3", path=path, content_type="audio/mpeg", size_bytes=size)
    return EncodedOutput(id=path.name, kind="audio", files=(file,))


async def test_outputs_are_uploaded_side_by_side(tmp_path: Path) -> None:
    outputs = [output_of(tmp_path / name) for name in ("a", "b", "c", "d")]
    location, attempt = LocalDestination(prefix="out/"), UploadAttempt(JOB, 1)
    writer = Meeting(location, attempt, LocalRoot(tmp_path / "objects"))
    writer.barrier = asyncio.Barrier(4)
    percents: list[float] = []
    reporter = ProgressReporter(lambda percent, _: percents.append(percent), clock=iter(range(1000)).__next__)
    uploads = Uploads(writer, location, attempt, Claim().fence, reporter)
    documents = await uploads.put_all(outputs)
    assert [each["key"] for each in documents] == ["out/a.mp3", "out/b.mp3", "out/c.mp3", "out/d.mp3"]
    for each in documents:
        assert hashlib.sha256((tmp_path / "objects" / each["key"]).read_bytes()).hexdigest() == each["sha256"]
    assert percents == sorted(percents)
    assert percents[-1] == 100.0
