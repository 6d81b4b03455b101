"""The tasks of a running role: those that work end by themselves, and those that help them are ended after them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, Final

from euterpe.model.errors import EuterpeError
from euterpe.service.signals import Stop

log: Final = logging.getLogger("euterpe.system")

Part = Coroutine[Any, Any, None]


class CannotStart(EuterpeError):
    """A part of the system could not start. The process exits with 1."""


def port_taken(what: str, host: str, port: int, error: OSError, variable: str) -> CannotStart:
    reason = (error.strerror or str(error)).lower()
    return CannotStart(f"the {what} cannot listen on {host}:{port} ({reason}); choose another port with {variable}")


class Parts:
    """The tasks of a running system. Parts that work end by themselves; helpers are ended after them."""

    def __init__(self, stop: Stop) -> None:
        self._stop = stop
        self._working: set[asyncio.Task[None]] = set()
        self._helpers: set[asyncio.Task[None]] = set()

    def start(self, part: Part) -> None:
        self.add(asyncio.get_running_loop().create_task(part))

    def add(self, started: asyncio.Task[None]) -> None:
        self._working.add(started)

    def start_helper(self, part: Part) -> None:
        self._helpers.add(asyncio.get_running_loop().create_task(part))

    async def until_done(self) -> None:
        """Until every working part has ended. A part that fails makes the others drain, and is raised at the end."""
        everything = self._working | self._helpers
        failure: BaseException | None = None
        while self._working:
            done, everything = await asyncio.wait(everything, return_when=asyncio.FIRST_COMPLETED)
            ended_by_itself = bool(self._working & done)
            self._working -= done
            for task in done:
                error = None if task.cancelled() else task.exception()
                if error is not None:
                    failure = failure or error
                    log.error("a part of the system failed", exc_info=error)
            if failure is not None or ended_by_itself:
                self._stop.draining.set()
        for helper in self._helpers:
            helper.cancel()
        await asyncio.gather(*self._helpers, return_exceptions=True)
        if failure is not None:
            raise failure
