"""What the service costs over bare ffmpeg on the same file and preset: `python -m bench.transcode`.

The queue is a SQLite file, source and destination are folders; each round runs one after the other, medians are told.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from euterpe.config import Config, TranscodeConfig
from euterpe.queue.queue import Queue
from euterpe.transcode.media.ffmpeg.tools import find_tools
from euterpe.transcode.setup import Transcoding

ROUNDS = 3
TOOLS = find_tools()


def ffmpeg(*arguments: str) -> float:
    began = time.perf_counter()
    command = [str(TOOLS.ffmpeg), "-hide_banner", "-loglevel", "error", "-y", *arguments]
    subprocess.run(command, stdin=subprocess.DEVNULL, check=True)  # our own arguments
    return time.perf_counter() - began


async def through_the_queue(queue: Queue, name: str) -> float:
    payload = {
        "source": {"type": "local", "path": name},
        "destination": {"type": "local", "prefix": "out/"},
        "outputs": [{"id": "mp3", "kind": "audio", "preset": "mp3_320"}],
    }
    began = time.perf_counter()
    job = await queue.submit("transcode", payload)
    await job.result(timeout="5m")
    return time.perf_counter() - began


async def measure(folder: Path) -> None:
    root = folder / "objects"
    root.mkdir()
    said = replace(TranscodeConfig(), local_root=str(root), work_dir=str(folder / "work"))
    queue = Queue(f"sqlite:///{folder}/jobs.db")
    async with queue, Transcoding(replace(Config(), transcode=said), queue) as transcoding:
        transcoding.register(TOOLS)
        stop = asyncio.Event()
        working = asyncio.create_task(queue.work(4, stop=stop, webhooks=False))
        try:
            for seconds, name in ((1, "short.flac"), (180, "long.flac")):
                sound = f"anoisesrc=d={seconds}:c=pink:r=44100:a=0.3:seed=7"
                ffmpeg("-f", "lavfi", "-i", sound, "-ac", "2", str(root / name))
                bare, whole = [], []
                for _ in range(ROUNDS):
                    target = str(folder / "bare.mp3")
                    bare.append(
                        await asyncio.to_thread(
                            ffmpeg, "-i", str(root / name), "-c:a", "libmp3lame", "-b:a", "320k", target
                        )
                    )
                    whole.append(await through_the_queue(queue, name))
                a, b = statistics.median(bare), statistics.median(whole)
                print(
                    f"{seconds:>4} s of FLAC to mp3_320: ffmpeg {a:.3f} s, service {b:.3f} s, "
                    f"{1000 * (b - a):+.0f} ms, {100 * (b / a - 1):+.1f} %"
                )
        finally:
            stop.set()
            await working


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="euterpe-bench-") as place:
        asyncio.run(measure(Path(place)))
