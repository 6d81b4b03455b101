"""Wake-ups between processes on one SQLite file: every commit writes to its WAL, and the kernel tells of that.

It tells of the write, which comes before the commit is there for others, and of our own writes too. So whoever
submitted touches the file afterwards: a touch wakes at once, a write some time later. Beside it, and where the kernel
does not tell, a look at the file's time and size. Neither opens the database: a second connection, by another SQLite
library than the application's, would take the application's locks away when it closes.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from typing import Final

from euterpe.ports import OPERATIONS_CHANNEL, OUTBOX_CHANNEL, CommitNotice
from euterpe.wakeups.file_watch import FileWatch
from euterpe.wakeups.local import OPERATIONS_ALONE, LocalWakeups

FILE_CHECK_S: Final = 0.03
LOOK_BESIDE_S: Final = 0.5
"""How often to look where the kernel tells."""
TOUCH_PAUSE_S: Final = 0.002
WRITE_PAUSE_S: Final = 0.03
"""Busy processes commit hundreds of times a second; to wake everyone for each would cost more than it brings."""
TICK_NS: Final = 20_000_000
"""File times move in steps of a few milliseconds: a second commit inside one step leaves no trace of its own."""

UNTOUCHED: Final = frozenset({OUTBOX_CHANNEL, OPERATIONS_CHANNEL})

Trace = tuple[int, int, int]


class DataWatch:
    """Local callbacks at once; a commit by another process wakes everyone here. It watches while someone listens."""

    def __init__(self, path: str) -> None:
        self._wal = f"{path}-wal"
        self._local = LocalWakeups()
        self._watcher: asyncio.Task[None] | None = None
        self._subscribers = 0
        self._woken_at = 0.0
        self._touched_at = -TOUCH_PAUSE_S
        self._later: asyncio.TimerHandle | None = None
        self._kernel: FileWatch | None = None

    async def open(self) -> None:
        return None

    async def close(self) -> None:
        watcher, self._watcher = self._watcher, None
        if watcher is not None:
            watcher.cancel()
            await asyncio.gather(watcher, return_exceptions=True)

    def notify_before_commit(self, queue: str) -> CommitNotice:
        """One writer takes everything in order, so who claims from now on may find the job in the same commit."""
        announced_all = self._local.announce_here(queue)
        return CommitNotice(self._touch if announced_all else self.announce)

    def announce(self, queues: Iterable[str]) -> None:
        named = set(queues)
        self._local.announce(named)
        self._touch(named)

    def _touch(self, queues: Iterable[str]) -> None:
        """For other processes. What comes too soon after another touch, and events, of which there are thousands while
        jobs end, they hear of by the writes."""
        now = time.monotonic()
        if now - self._touched_at >= TOUCH_PAUSE_S and any(queue not in UNTOUCHED for queue in queues):
            self._touched_at = now
            with suppress(OSError):
                os.utime(self._wal)

    def subscribe(self, wake: Callable[[], None], queues: Collection[str]) -> Callable[[], None]:
        stop = self._local.subscribe(wake, queues)
        if frozenset(queues) == OPERATIONS_ALONE:
            return stop  # Nothing that another process commits is meant for it.
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
        try:
            while True:
                if self._kernel is None and seen is not None:
                    self._kernel = self._ask_kernel()
                await asyncio.sleep(FILE_CHECK_S if self._kernel is None else LOOK_BESIDE_S)
                trace = trace_of(self._wal)
                if trace != seen or unsure:
                    self._was_touched()
                if trace is None or seen is None or trace[2] != seen[2]:
                    self._let_kernel_go()  # The file is another one now.
                unsure = trace != seen and trace is not None and time.time_ns() - trace[0] < TICK_NS
                seen = trace
        finally:
            self._let_kernel_go()
            if self._later is not None:
                self._later.cancel()
                self._later = None

    def _ask_kernel(self) -> FileWatch | None:
        try:
            return FileWatch(self._wal, touched=self._was_touched, written=self._was_written)
        except OSError:
            return None

    def _let_kernel_go(self) -> None:
        kernel, self._kernel = self._kernel, None
        if kernel is not None:
            kernel.close()

    def _was_touched(self) -> None:
        self._wake_at(self._woken_at + TOUCH_PAUSE_S)

    def _was_written(self) -> None:
        """Never at once: the write that was told of is the first of a commit. After a second one no other is heard of
        until then."""
        if self._later is not None and self._kernel is not None:
            self._kernel.hear(writes=False)
        self._wake_at(asyncio.get_running_loop().time() + WRITE_PAUSE_S)

    def _wake_at(self, at: float) -> None:
        """The last change is never passed over, and several are told together."""
        loop = asyncio.get_running_loop()
        if self._later is not None:
            if self._later.when() <= at:
                return
            self._later.cancel()
            self._later = None
        if at <= loop.time():
            self._wake()
        else:
            self._later = loop.call_at(at, self._wake)

    def _wake(self) -> None:
        self._later = None
        self._woken_at = asyncio.get_running_loop().time()
        if self._kernel is not None:
            # Before anybody looks: what is written from now on may come too late for them.
            self._kernel.hear(writes=True)
        self._local.announce_any()


def trace_of(path: str) -> Trace | None:
    """What a write leaves behind: (time, size, which file); None while there is no file."""
    try:
        found = os.stat(path)  # noqa: PTH116  # thirty times a second, so without a Path object
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
