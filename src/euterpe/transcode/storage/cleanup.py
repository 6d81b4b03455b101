"""Work that goes on though whoever began it was cancelled, and is waited for when its owner closes."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

T = TypeVar("T")

LONGEST_S: Final = 10.0


class Cleanup:
    def __init__(self) -> None:
        self._under_way: set[asyncio.Task[Any]] = set()

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.create_task(work)
        self._under_way.add(task)
        task.add_done_callback(self._done)
        return task

    async def close(self) -> None:
        """What is not done by then is left: the ledger remembers it."""
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=LONGEST_S)
        for task in self._under_way:
            task.cancel()
        if self._under_way:
            await asyncio.wait(self._under_way)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._under_way.discard(task)
        if not task.cancelled():
            task.exception()  # Taken here: who wanted to know it has asked, and nobody else needs to.
