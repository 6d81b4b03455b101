"""Cutting off a submit at a chosen point: a coroutine is cancelled, blocking code interrupted."""

from __future__ import annotations

import asyncio
import types
from collections.abc import Coroutine, Generator
from typing import Any, Literal

from euterpe.model.submitting.batch import SubmitResult
from euterpe.stores.sql.caller.calls import Calls, DriverCall
from euterpe.stores.sql.program import Row

When = Literal["at once", "with the answer"]


class Cancelled:
    """Runs a coroutine as a task, and cancels it at its n-th suspension: as soon as it waits, or just when what it
    waits for is there, which is when the answer is the easiest to lose."""

    def __init__(self, work: Coroutine[Any, Any, object], at: int, when: When) -> None:
        self._work = work
        self._at = at
        self._when = when
        self.suspensions = 0
        self.task = asyncio.ensure_future(self._watched())

    @property
    def was_cancelled(self) -> bool:
        return self.suspensions >= self._at

    async def _watched(self) -> object:
        return await self._stepped()

    @types.coroutine
    def _stepped(self) -> Generator[Any, Any, object]:
        try:
            waited_for = self._work.send(None)
            while True:
                self.suspensions += 1
                if self.suspensions == self._at:
                    self._cancel(waited_for)
                try:
                    answer = yield waited_for
                except BaseException as error:  # noqa: BLE001  # all of it is the coroutine's
                    waited_for = self._work.throw(error)
                else:
                    waited_for = self._work.send(answer)
        except StopIteration as stop:
            return stop.value

    def _cancel(self, waited_for: object) -> None:
        if self._when == "with the answer" and isinstance(waited_for, asyncio.Future):
            # Before the task's own callback, which wakes it up with the answer.
            waited_for.add_done_callback(lambda _: self.task.cancel())
        else:
            asyncio.get_running_loop().call_soon(self.task.cancel)


class Interrupted:
    """A KeyboardInterrupt at the n-th call of a series: before it was made, or after it took effect."""

    def __init__(self, at: int, when: Literal["before", "after"]) -> None:
        self._at = at
        self._when = when
        self.happened = False

    def calls(self, whole: Calls[list[SubmitResult]]) -> Generator[DriverCall, list[Row], list[SubmitResult]]:
        made = 0
        try:
            call = next(whole)
            while True:
                made += 1
                self.happened = self.happened or made == self._at
                try:
                    rows = [] if made == self._at and self._when == "before" else (yield call)
                    if made == self._at:
                        raise KeyboardInterrupt
                except GeneratorExit:
                    raise
                except BaseException as error:  # noqa: BLE001  # all of it is for the series
                    call = whole.throw(error)
                else:
                    call = whole.send(rows)
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]  # StopIteration carries Any
