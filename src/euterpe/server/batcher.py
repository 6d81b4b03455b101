"""Natural group commit: what is asked while a write is under way goes together into the next one.

Nobody waits for company: an ask that finds the writer free is written at once, alone. Under load the groups grow by
themselves, and a hundred clients cost a handful of statements.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextvars import Context  # a task that outlives its request carries none of its keys
from typing import Final, Generic, TypeVar

from euterpe.model.errors import StoreUnavailable

Ask = TypeVar("Ask")
Answer = TypeVar("Answer")

GROUP_LIMIT: Final = 500


class Batcher(Generic[Ask, Answer]):
    """Each caller gets the answers to its own asks, once these are durable."""

    def __init__(self, write: Callable[[Sequence[Ask]], Awaitable[list[Answer]]]) -> None:
        self._write = write
        self._waiting: list[tuple[Sequence[Ask], asyncio.Future[list[Answer]]]] = []
        self._writer: asyncio.Task[None] | None = None

    async def ask(self, ask: Ask) -> Answer:
        return (await self.ask_all((ask,)))[0]

    async def ask_all(self, asks: Sequence[Ask]) -> list[Answer]:
        """They are written together, and with whatever else waits."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[list[Answer]] = loop.create_future()
        self._waiting.append((asks, future))
        if self._writer is None:
            # A task of its own: a caller that is cancelled must not take the others' write down with it.
            self._writer = loop.create_task(self._write_all(), context=Context())
        return await future

    async def _write_all(self) -> None:
        try:
            while self._waiting:
                await self._write_group(self._take_group())
        finally:
            self._writer = None
            for _, future in self._waiting:  # only a cancelled writer leaves any
                future.cancel()
            self._waiting = []

    def _take_group(self) -> list[tuple[Sequence[Ask], asyncio.Future[list[Answer]]]]:
        """As many callers as fit; the first always does."""
        count = taken = 0
        for asks, _ in self._waiting:
            if taken and count + len(asks) > GROUP_LIMIT:
                break
            count += len(asks)
            taken += 1
        group, self._waiting = self._waiting[:taken], self._waiting[taken:]
        return group

    async def _write_group(self, group: list[tuple[Sequence[Ask], asyncio.Future[list[Answer]]]]) -> None:
        try:
            answers = await self._write([ask for asks, _ in group for ask in asks])
        except asyncio.CancelledError:
            for _, future in group:
                future.cancel()
            raise
        except Exception as error:  # noqa: BLE001  # whatever it was, every caller must get it
            if len(group) > 1 and not isinstance(error, StoreUnavailable):
                # Something in the group is refused for what it is; the others shall not suffer for it.
                for one in group:
                    await self._write_group([one])
                return
            for _, future in group:
                if not future.done():
                    future.set_exception(error)
            return
        at = 0
        for asks, future in group:
            if not future.done():
                future.set_result(answers[at : at + len(asks)])
            at += len(asks)
