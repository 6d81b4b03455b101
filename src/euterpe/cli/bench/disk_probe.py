"""Measures how often a second a disk, or a database server, makes a small write durable.

Every other figure is to be read beside this one. It also finds a disk that makes nothing durable.
"""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from euterpe.backends.sandbox import commits_per_s
from euterpe.cli.bench.sandbox import Sandbox

BLOCK: Final = b"\0" * 4096
FREE_PER_S: Final = 100_000
"""No disk that waits for its medium is that fast."""
DISK: Final = "disk: fdatasync of 4 KB appends"
SERVER: Final = "server: bare INSERT + commit, one client"
_make_durable = getattr(os, "fdatasync", os.fsync)


@dataclass(frozen=True, slots=True)
class CommitSpeed:
    title: str
    per_s: float
    remarks: tuple[str, ...] = ()


async def probe_disk(place: Sandbox, seconds: float) -> CommitSpeed:
    if place.folder is None:
        return await _of_server(place.url, seconds)
    per_s = await asyncio.to_thread(_appends_per_s, place.folder / "ground", seconds)
    free = per_s > FREE_PER_S
    remark = f"{place.folder.parent} makes nothing durable (memory, or a disk that lies): name a file on a real disk"
    return CommitSpeed(DISK, per_s, (remark,) if free else ())


def _appends_per_s(path: Path, seconds: float) -> float:
    with path.open("wb", buffering=0) as file:
        start = time.monotonic()
        count = 0
        while (past := time.monotonic() - start) < seconds:
            file.write(BLOCK)
            _make_durable(file.fileno())
            count += 1
    return count / past


async def _of_server(url: str, seconds: float) -> CommitSpeed:
    per_s, waits_for_its_disk = await commits_per_s(url, seconds)
    remark = "this server has fsync = off: a crash loses jobs that were acknowledged"
    return CommitSpeed(SERVER, per_s, () if waits_for_its_disk else (remark,))
