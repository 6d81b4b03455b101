"""A worker process that has done its part makes room for a fresh one: after so many jobs, or once it is too large."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

log: Final = logging.getLogger("euterpe.system")

LOOK_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class Recycling:
    """When a process ends by itself; None: never for that reason."""

    max_jobs: int | None = None
    max_memory_mb: int | None = None


async def recycle(limits: Recycling, ended: Callable[[], int], drain: Callable[[], None]) -> None:
    """Drain once a limit is reached. `ended` counts the attempts of this process."""
    while True:
        await asyncio.sleep(LOOK_S)
        if limits.max_jobs is not None and ended() >= limits.max_jobs:
            log.info("recycling: %d jobs are done", ended())
        elif limits.max_memory_mb is not None and resident_mb() >= limits.max_memory_mb:
            log.info("recycling: the process has grown to %d MB", resident_mb())
        else:
            continue
        drain()
        return


def resident_mb() -> int:
    """What the process holds now; where the system does not tell, the most that it ever held."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        import resource  # Where processes cannot fork there is none of it, and nobody asks.

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak // (1 << 20) if sys.platform == "darwin" else peak // 1024
    return pages * os.sysconf("SC_PAGE_SIZE") >> 20
