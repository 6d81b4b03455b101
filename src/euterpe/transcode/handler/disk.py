"""Room on the worker's disk: a job starts only if what it needs fits beside what runs.

A job that does not fit is left to other workers, or to a later time, uncharged: it is not its requester's failure.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from euterpe.model.failures.failure import Category
from euterpe.transcode.media.errors import MediaError
from euterpe.transcode.media.sizes import sizes_in

NEED_FACTOR: Final = 3
"""A job needs room for its source and for outputs of twice its size."""
DISK_FULL: Final = "worker.disk_full"


class Reservation:
    """The room that one running job was promised, in bytes, for everything in its folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.need = 0

    def lacking(self) -> int:
        """How much of it is not written yet."""
        return max(0, self.need - sizes_in(self.folder).sizes.total())


class DiskRoom:
    """The disk of one folder for work, shared by the jobs of a process. `min_free` bytes of it stay free."""

    def __init__(self, root: Path, min_free: int) -> None:
        self._root = root
        self._min_free = min_free
        self._running: set[Reservation] = set()
        self._lock = asyncio.Lock()

    @asynccontextmanager
    async def reservation(self, folder: Path) -> AsyncIterator[Reservation]:
        reservation = Reservation(folder)
        self._running.add(reservation)
        try:
            yield reservation
        finally:
            self._running.discard(reservation)

    async def admit(self, reservation: Reservation, source_bytes: int) -> None:
        """Promise room for a source of this size and its outputs. Raises MediaError `worker.disk_full`."""
        async with self._lock:
            reservation.need = 0
            others, free = await asyncio.to_thread(self._look)
            need = NEED_FACTOR * source_bytes
            if free - others - need < self._min_free:
                raise _full(f"the job needs {need} bytes, and {max(0, free - others - self._min_free)} are left")
            reservation.need = need

    def check(self, reservation: Reservation, output_bytes: int) -> None:
        """While it encodes. A job that wrote more than it was promised is to blame, and charged; any other is not.
        Blocks for a moment."""
        if shutil.disk_usage(self._root).free >= self._min_free:
            return
        if output_bytes > reservation.need:
            raise MediaError(
                "encode.disk_full", Category.SYSTEM, f"the outputs have {output_bytes} bytes and fill the worker's disk"
            )
        raise _full("other files fill it")

    def _look(self) -> tuple[int, int]:
        return sum(each.lacking() for each in tuple(self._running)), shutil.disk_usage(self._root).free


def _full(why: str) -> MediaError:
    return MediaError(DISK_FULL, Category.SYSTEM, f"the worker's disk has no room: {why}; tried again later")
