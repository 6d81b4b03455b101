"""A worker in a process of its own, to be killed: `python -m tests.transcode.service.held_worker URL FOLDER`."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from euterpe.config import Config, TranscodeConfig
from euterpe.queue.queue import Queue
from euterpe.transcode.media.ffmpeg.tools import find_tools
from euterpe.transcode.setup import Transcoding
from tests.transcode.service.holding import hold_attempts
from tests.transcode.service.studio import environ_for


async def main(url: str, folder: Path) -> None:
    said = replace(TranscodeConfig(), local_root=str(folder / "objects"), work_dir=str(folder / "work"), concurrency=4)
    queue = Queue(url)
    hold_attempts(pytest.MonkeyPatch(), lambda place: print(place, flush=True))
    async with queue, Transcoding(replace(Config(), transcode=said), queue, environ_for(url)) as transcoding:
        transcoding.register(find_tools())
        await queue.work(8, lease="3s", poll="50ms", webhooks=False)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
