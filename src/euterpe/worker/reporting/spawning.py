"""The children that a running attempt spawns. They are a part of it: stored or refused before it is settled."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

from euterpe.worker.context import Sent


class Spawns:
    """Those of one attempt. Lives on the worker's loop."""

    def __init__(self) -> None:
        self._begun: dict[asyncio.Task[str], Sent[str]] = {}

    def begin(
        self,
        spawn: Coroutine[Any, Any, str],
        sent: Sent[str] | None = None,
        answer: concurrent.futures.Future[str] | None = None,
    ) -> Sent[str]:
        """`answer` is where a thread waits for it."""
        task = asyncio.get_running_loop().create_task(spawn)
        sent = sent or Sent(task)
        self._begun[task] = sent
        task.add_done_callback(lambda done: _resolve(done, answer))
        return sent

    @property
    def pending(self) -> list[asyncio.Task[str]]:
        return [task for task in self._begun if not task.done()]

    async def over(self) -> BaseException | None:
        """Wait for all; the error of one that nobody awaited, or whose waiter was cancelled meanwhile."""
        while pending := self.pending:
            await asyncio.wait(pending)
        for task, sent in self._begun.items():
            error = None if task.cancelled() else task.exception()
            if error is not None and not sent.was_seen:
                return error
        return None

    def drop(self) -> None:
        """The attempt ends without them: the fence refuses whatever is still on its way."""
        for task in self._begun:
            task.cancel()


def _resolve(task: asyncio.Task[str], answer: concurrent.futures.Future[str] | None) -> None:
    error = asyncio.CancelledError() if task.cancelled() else task.exception()
    if answer is None:
        return
    with suppress(concurrent.futures.InvalidStateError):  # its waiter is gone
        if error is None:
            answer.set_result(task.result())
        else:
            answer.set_exception(error)
