"""How long the machine's other work keeps this very process waiting: what it adds to a time that a test measures."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

TICK_S: Final = 0.01


@dataclass(slots=True)
class Stalls:
    longest_s: float = 0.0


@asynccontextmanager
async def stalls() -> AsyncIterator[Stalls]:
    """Measured as long as the context lasts."""
    seen = Stalls()

    async def tick() -> None:
        while True:
            before = time.monotonic()
            await asyncio.sleep(TICK_S)
            seen.longest_s = max(seen.longest_s, time.monotonic() - before - TICK_S)

    ticking = asyncio.create_task(tick())
    try:
        yield seen
    finally:
        ticking.cancel()
        await asyncio.wait({ticking})


def worked_s(pid: int) -> float:
    """How long the process has been on a core or in the line for one; all the rest it slept, or waited for others.
    Known of a process that has ended, too, until its parent asks for its code."""
    told = Path(f"/proc/{pid}/schedstat")
    return sum(map(int, told.read_text().split()[:2])) / 1e9 if told.exists() else 0.0


def has_ended(pid: int) -> bool:
    """Of a child, whose code stays to be asked for."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
