"""Wake-ups between processes on one SQLite file: every commit writes to its WAL, and a look at that file tells.

A stat call costs a microsecond, so looking many times a second costs next to nothing. It opens nothing: a second
connection, by another SQLite library than the application's, would take the application's locks away when it closes.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Collection, Iterable
from typing import Final

from euterpe.transport.local import LocalWakeups

LOOK_S: Final = 0.03
TICK_NS: Final = 20_000_000
"""File times move in steps of a few milliseconds: a second commit inside one step leaves no trace of its own."""

Trace = tuple[int, int, int]


class DataWatch:
    """Local callbacks at once; a commit by another process wakes everyone here. It watches while someone listens."""

    def __init__(self, path: str) -> None:
        self._wal = f"{path}-wal"
        self._local = LocalWakeups()
        self._watcher: asyncio.Task[None] | None = None
        self._subscribers = 0

    async def open(self) -> None:
        return None

    async def close(self) -> None:
        watcher, self._watcher = self._watcher, None
        if watcher is not None:
            watcher.cancel()
            await asyncio.gather(watcher, return_exceptions=True)

    def announce(self, queues: Iterable[str]) -> None:
        self._local.announce(queues)

    def subscribe(self, wake: Callable[[], None], queues: Collection[str]) -> Callable[[], None]:
        stop = self._local.subscribe(wake, queues)
        self._subscribers += 1
        if self._watcher is None:
            self._watcher = asyncio.get_running_loop().create_task(self._watch())

        def unsubscribe() -> None:
            stop()
            self._subscribers -= 1
            if self._subscribers == 0 and self._watcher is not None:
                self._watcher.cancel()
                self._watcher = None

        return unsubscribe

    async def _watch(self) -> None:
        seen = trace_of(self._wal)
        unsure = False
        while True:
            await asyncio.sleep(LOOK_S)
            trace = trace_of(self._wal)
            if trace != seen or unsure:
                self._local.announce_any()
            unsure = trace != seen and trace is not None and time.time_ns() - trace[0] < TICK_NS
            seen = trace


def trace_of(path: str) -> Trace | None:
    """What a write leaves behind: (time, size, which file); None while there is no file."""
    try:
        found = os.stat(path)  # noqa: PTH116  # thirty times a second, so without a Path object
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
