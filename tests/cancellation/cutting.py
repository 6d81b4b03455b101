"""Cutting a coroutine off at its k-th suspension point, in each way in which a cancel can arrive there."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from enum import Enum
from typing import Any


class When(Enum):
    WAITING = "while it waits"
    """What it asked for is on its way."""
    ANSWERED = "when its answer is there"
    """The answer has come and was not looked at."""
    AGAIN = "again and again"
    """While it waits, and at every suspension point after that."""


class Cut:
    """Runs a coroutine and cancels its task at the suspension point with this number, counted from 0."""

    def __init__(self, running: Coroutine[Any, Any, Any], at: int, when: When) -> None:
        self._running = running
        self._at = at
        self._when = when
        self.came_to_it = False

    def __await__(self) -> Generator[Any, Any, Any]:
        task = asyncio.current_task()
        assert task is not None
        steps = self._running.__await__()
        seen = 0
        error: BaseException | None = None
        while True:
            try:
                awaited = steps.send(None) if error is None else steps.throw(error)
            except StopIteration as stop:
                return stop.value
            if seen == self._at or (seen > self._at and self._when is When.AGAIN):
                self.came_to_it = True
                if self._when is When.ANSWERED and awaited is not None:
                    awaited.add_done_callback(lambda _: task.cancel())
                else:
                    task.get_loop().call_soon(task.cancel)
            seen += 1
            try:
                yield awaited
                error = None
            except BaseException as thrown:  # noqa: BLE001  # it belongs to the coroutine, which decides what becomes of it
                error = thrown


async def cut_off(running: Coroutine[Any, Any, Any], at: int, when: When) -> bool:
    """False: it ended before that suspension point came."""
    cut = Cut(running, at, when)

    async def run() -> None:
        await cut

    await asyncio.wait({task := asyncio.ensure_future(run())})
    if not task.cancelled() and (error := task.exception()) is not None:
        raise error
    return cut.came_to_it
