"""Group commit for submits: what arrives while a commit is under way goes together into the next one.

Each submission has a deadline of its own. A group is written within that of its first, which is the earliest; who came
later and has time left when that fails is tried once more.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple

from euterpe.model.errors import CommitUnknown, DataRejected, SchemaMismatch, StoreUnavailable
from euterpe.model.submitting.batch import Unit
from euterpe.stores.sql.submitting.submit import Answer

GROUP_LIMIT: Final = 1000
LONG_S: Final = 1.0
"""A write that failed after so long had waited for the database; others may have more time than it had."""


class WaitingUnit(NamedTuple):
    unit: Unit
    future: asyncio.Future[Answer]
    deadline: float


class SubmitBatcher:
    """Callers wait for their own unit; each is durable when its await returns."""

    def __init__(
        self, write: Callable[[Sequence[Unit], float], Awaitable[list[Answer]]], patience_s: Callable[[], float]
    ) -> None:
        self._write = write
        self._patience_s = patience_s
        self._waiting: list[WaitingUnit] = []
        self._busy = False

    async def submit(self, unit: Unit) -> Answer:
        deadline = time.monotonic() + self._patience_s()
        if not self._busy:
            # Nobody to share with: no detour over a task.
            self._busy = True
            try:
                return (await self._write([unit], deadline))[0]
            finally:
                self._next()
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append(WaitingUnit(unit, future, deadline))
        return await future

    def _next(self) -> None:
        group, self._waiting = self._waiting[:GROUP_LIMIT], self._waiting[GROUP_LIMIT:]
        if not group:
            self._busy = False
            return
        self._task = asyncio.get_running_loop().create_task(self._write_group(group))

    async def _write_group(self, group: list[WaitingUnit]) -> None:
        begun = time.monotonic()
        try:
            answers = await self._write([waiting.unit for waiting in group], group[0].deadline)
        except DataRejected as rejected:
            await self._write_apart(group, rejected)
        except BaseException as error:
            now = time.monotonic()
            again_from = now + LONG_S if _waited(error, now - begun) else math.inf
            left = [waiting for waiting in group if not waiting.future.done()]
            self._waiting[:0] = [waiting for waiting in left if waiting.deadline > again_from]
            for waiting in left:
                if waiting.deadline <= again_from:
                    waiting.future.set_exception(error)
            if not isinstance(error, Exception):
                raise
        else:
            for waiting, answer in zip(group, answers, strict=True):
                if not waiting.future.done():
                    waiting.future.set_result(answer)
        finally:
            self._next()

    async def _write_apart(self, group: list[WaitingUnit], rejected: DataRejected) -> None:
        """The database refuses a value of one of them: the others must not fail with it."""
        for waiting in group:
            if waiting.future.done():
                continue
            if len(group) == 1:
                waiting.future.set_exception(rejected)
                return
            try:
                answer = (await self._write([waiting.unit], waiting.deadline))[0]
            except BaseException as error:
                if not waiting.future.done():
                    waiting.future.set_exception(error)
                if not isinstance(error, Exception):
                    raise
            else:
                if not waiting.future.done():
                    waiting.future.set_result(answer)


def _waited(error: BaseException, took_s: float) -> bool:
    """Nothing was stored, and that took long."""
    passing = isinstance(error, StoreUnavailable) and not isinstance(error, (CommitUnknown, SchemaMismatch))
    return passing and took_s > LONG_S
