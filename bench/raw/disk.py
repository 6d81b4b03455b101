"""How often the disk can be asked to make a 4 KB append durable, by one writer and by eight at once."""

from __future__ import annotations

import asyncio
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench.raw.probe import Probe

BLOCK = os.urandom(4096)


def append_durably(path: Path, count: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        for _ in range(count):
            os.write(descriptor, BLOCK)
            os.fdatasync(descriptor)
    finally:
        os.close(descriptor)


async def appends_per_s(folder: str, count: int, writers: int) -> float:
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(writers) as threads:
        start_s = time.monotonic()
        files = [Path(folder) / f"{number}.log" for number in range(writers)]
        await asyncio.gather(*(loop.run_in_executor(threads, append_durably, file, count // writers) for file in files))
        return (count // writers) * writers / (time.monotonic() - start_s)


async def one_writer(folder: str, count: int) -> float:
    return await appends_per_s(folder, count, writers=1)


async def eight_writers(folder: str, count: int) -> float:
    return await appends_per_s(folder, count, writers=8)


PROBES = (
    Probe("disk: fdatasync of 4 KB appends, 1 writer", "disk", 4_000, one_writer),
    Probe("disk: fdatasync of 4 KB appends, 8 writers", "disk", 16_000, eight_writers),
)
