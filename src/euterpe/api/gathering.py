"""Natural group commit: what is asked while a write is under way goes together into the next one.

Nobody waits for company: an ask that finds the writer free is written at once, alone. Under load the groups grow by
themselves, and a hundred clients cost a handful of statements.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Generic, TypeVar

Ask = TypeVar("Ask")
Answer = TypeVar("Answer")

GROUP_LIMIT: Final = 500


class Gathering(Generic[Ask, Answer]):
    """Each caller gets the answer to its own ask, once that is durable."""

    def __init__(self, write: Callable[[Sequence[Ask]], Awaitable[list[Answer]]]) -> None:
        self._write = write
        self._waiting: list[tuple[Ask, asyncio.Future[Answer]]] = []
        self._writer: asyncio.Task[None] | None = None

    async def ask(self, ask: Ask) -> Answer:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Answer] = loop.create_future()
        self._waiting.append((ask, future))
        if self._writer is None:
            # A task of its own: a caller that is cancelled must not take the others' write down with it.
            self._writer = loop.create_task(self._write_all())
        return await future

    async def _write_all(self) -> None:
        try:
            while self._waiting:
                group, self._waiting = self._waiting[:GROUP_LIMIT], self._waiting[GROUP_LIMIT:]
                await self._write_group(group)
        finally:
            self._writer = None
            for _, future in self._waiting:  # only a cancelled writer leaves any
                future.cancel()
            self._waiting = []

    async def _write_group(self, group: list[tuple[Ask, asyncio.Future[Answer]]]) -> None:
        try:
            answers = await self._write([ask for ask, _ in group])
        except asyncio.CancelledError:
            for _, future in group:
                future.cancel()
            raise
        except Exception as error:  # noqa: BLE001  # whatever it was, every caller must get it
            for _, future in group:
                if not future.done():
                    future.set_exception(error)
            return
        for (_, future), answer in zip(group, answers, strict=True):
            if not future.done():
                future.set_result(answer)
