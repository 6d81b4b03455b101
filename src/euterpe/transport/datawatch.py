"""Wake-ups between processes on one SQLite file: `PRAGMA data_version` changes when another process commits.

It reads a counter in shared memory, a few microseconds, so looking many times a second costs next to nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable
from typing import Final

import apsw

from euterpe.transport.local import LocalWakeups

LOOK_S: Final = 0.03


class DataWatch:
    """Local callbacks at once; a commit by another process wakes everyone here."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._local = LocalWakeups()
        self._watcher: asyncio.Task[None] | None = None
        self._subscribers = 0
        self._connection: apsw.Connection | None = None

    def announce(self, queues: Iterable[str]) -> None:
        self._local.announce(queues)

    def subscribe(self, wake: Callable[[], None], queues: Collection[str]) -> Callable[[], None]:
        stop = self._local.subscribe(wake, queues)
        self._subscribers += 1
        if self._watcher is None and self._path != ":memory:":
            self._connection = apsw.Connection(self._path)
            self._watcher = asyncio.get_running_loop().create_task(self._watch(self._connection))

        def unsubscribe() -> None:
            stop()
            self._subscribers -= 1
            if self._subscribers == 0 and self._watcher is not None:
                self._watcher.cancel()
                self._watcher = None

        return unsubscribe

    async def _watch(self, connection: apsw.Connection) -> None:
        seen = None
        try:
            while True:
                try:
                    version = connection.pragma("data_version")
                except apsw.BusyError:
                    version = seen
                if version != seen:
                    seen = version
                    self._local.announce_any()
                await asyncio.sleep(LOOK_S)
        finally:
            connection.close()
