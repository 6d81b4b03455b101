"""Group commit for submits: what arrives while a commit is under way goes together into the next one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from euterpe.store.submitting import Answer
from euterpe.store.units import Unit

GROUP_LIMIT: Final = 1000


class Gate:
    """Callers wait for their own unit; each is durable when its await returns."""

    def __init__(self, write: Callable[[Sequence[Unit]], Awaitable[list[Answer]]]) -> None:
        self._write = write
        self._waiting: list[tuple[Unit, asyncio.Future[Answer]]] = []
        self._busy = False

    async def submit(self, unit: Unit) -> Answer:
        if not self._busy:
            # Nobody to share with: no detour over a task.
            self._busy = True
            try:
                return (await self._write([unit]))[0]
            finally:
                self._next()
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((unit, future))
        return await future

    def _next(self) -> None:
        group, self._waiting = self._waiting[:GROUP_LIMIT], self._waiting[GROUP_LIMIT:]
        if not group:
            self._busy = False
            return
        self._task = asyncio.get_running_loop().create_task(self._write_group(group))

    async def _write_group(self, group: list[tuple[Unit, asyncio.Future[Answer]]]) -> None:
        try:
            answers = await self._write([unit for unit, _ in group])
        except BaseException as error:
            for _, future in group:
                if not future.done():
                    future.set_exception(error)
            if not isinstance(error, Exception):
                raise
        else:
            for (_, future), answer in zip(group, answers, strict=True):
                if not future.done():
                    future.set_result(answer)
        finally:
            self._next()
