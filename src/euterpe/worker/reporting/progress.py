"""Writes the progress of a running attempt (stage, progress, checkpoint), in order and one write at a time.

A handler may report far more often than a database should be written to: what comes while a write is under way is
merged into the next one. Stages are never merged, since each of them is a status that others are told about.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

import msgspec

from euterpe.model.claims.exchange import ProgressUpdate

Write = Callable[[ProgressUpdate], Awaitable[None]]


class ProgressWriter:
    """The progress of one attempt. Lives on the worker's loop."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self._waiting: deque[tuple[ProgressUpdate, list[asyncio.Future[None]]]] = deque()
        self._writer: asyncio.Task[None] | None = None

    def report_progress(self, update: ProgressUpdate) -> asyncio.Future[None]:
        """Resolved when it is written; an error of the write is raised there."""
        loop = asyncio.get_running_loop()
        written: asyncio.Future[None] = loop.create_future()
        written.add_done_callback(_retrieve_error)
        if self._waiting and (merged := _merge(self._waiting[-1][0], update)) is not None:
            _, futures = self._waiting.pop()
            self._waiting.append((merged, [*futures, written]))
        else:
            self._waiting.append((update, [written]))
        if self._writer is None:
            self._writer = loop.create_task(self._write_all())
        return written

    async def delivered(self) -> None:
        """Wait until everything told so far is written, or refused."""
        while self._writer is not None:
            await asyncio.wait({self._writer})

    @property
    def idle(self) -> bool:
        return self._writer is None

    def drop(self) -> None:
        """Nobody is interested any more."""
        if self._writer is not None:
            self._writer.cancel()

    async def _write_all(self) -> None:
        try:
            while self._waiting:
                update, futures = self._waiting.popleft()
                error: Exception | None = None
                try:
                    await self._write(update)
                except Exception as refused:  # noqa: BLE001  # whatever it was, who waits must hear of it
                    error = refused
                except BaseException:
                    _let_go(futures)
                    raise
                _resolve(futures, error)
        finally:
            self._writer = None
            for _, futures in self._waiting:
                _let_go(futures)


def _merge(earlier: ProgressUpdate, later: ProgressUpdate) -> ProgressUpdate | None:
    """Both in one write; None when that would hide a stage."""
    if earlier.stage is not None and later.stage is not None:
        return None
    fields = {
        name: value
        for name in ("stage", "progress", "message", "checkpoint")
        if (value := getattr(later, name)) is not None
    }
    return msgspec.structs.replace(earlier, **fields, waited_us=earlier.waited_us + later.waited_us)


def _let_go(futures: list[asyncio.Future[None]]) -> None:
    for future in futures:
        future.cancel()


def _resolve(futures: list[asyncio.Future[None]], error: Exception | None) -> None:
    for future in futures:
        if future.done():
            continue
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)


def _retrieve_error(future: asyncio.Future[None]) -> None:
    # News may be let go without awaiting it; its error is then nobody's, and not worth asyncio's complaint.
    if not future.cancelled():
        future.exception()
