"""Handler starts, as the measured job itself sees them."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from euterpe.model.errors import EuterpeError

STALL_S: Final = 30.0


class Counter:
    """`saw` is the whole body of the measured handler."""

    def __init__(self) -> None:
        self.starts = 0
        self.first_ns = 0
        self.latencies_ms: list[float] = []
        self._wanted = 0
        self._reached = asyncio.Event()

    def saw(self, sent_ns: int) -> None:
        now_ns = time.monotonic_ns()
        if not self.starts:
            self.first_ns = now_ns
        self.starts += 1
        if sent_ns:
            self.latencies_ms.append((now_ns - sent_ns) / 1e6)
        if self.starts == self._wanted:
            self._reached.set()

    async def until(self, total: int, working: asyncio.Task[None]) -> None:
        """Until so many have started; an error when the worker ends before, or starts nothing for long."""
        self._wanted = total
        self._reached.clear()
        reached = asyncio.ensure_future(self._reached.wait())
        try:
            while (before := self.starts) < total:
                await asyncio.wait({reached, working}, timeout=STALL_S, return_when=asyncio.FIRST_COMPLETED)
                if working.done():
                    working.result()
                    raise EuterpeError("the worker ended before its jobs did")
                if self.starts == before:
                    raise EuterpeError(f"{self.starts} of {total} jobs started, and none for {STALL_S:.0f} s")
        finally:
            reached.cancel()
