"""A worker's own row among those that are alive: told at its start, again every now and then, and taken back at its
end. It is beside all that jobs depend on; where it cannot be written, the worker works on and tries again."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import msgspec

from euterpe.model.claims.presence import SILENCE_US, Presence, WorkerFacts
from euterpe.ports import WorkerRegistry
from euterpe.runtime.outage import Outage
from euterpe.runtime.shutdown import ShutdownDeadline
from euterpe.runtime.wait import happens_within

log: Final = logging.getLogger("euterpe.worker")

SOONEST_S: Final = 5.0
"""Only what changes a worker's mind about a whole queue is told so soon; the rest at the usual pace."""
LEAVE_S: Final = 1.0


class WorkerRegistration:
    """Tells of one worker. `changes` grows when there is something worth telling before the usual time."""

    def __init__(
        self,
        registry: WorkerRegistry,
        worker_id: str,
        version: str,
        facts: Callable[[], WorkerFacts],
        changes: Callable[[], int],
        silence_us: int = SILENCE_US,
    ) -> None:
        self._registry = registry
        self._worker_id = worker_id
        self._facts = facts
        self._changes = changes
        self._silence_us = silence_us
        self._me: dict[str, Any] = {"host": socket.gethostname(), "pid": os.getpid(), "version": version}
        self._began = time.monotonic()
        self._outage = Outage(log, "the registration of this worker")
        self._stop = asyncio.Event()

    async def run(self) -> None:
        """Until `leave`."""
        while not self._stop.is_set():
            changes = self._changes()
            try:
                await self._registry.register([self.presence()])
            except Exception as error:  # noqa: BLE001  # no job depends on it
                pause_s = self._outage.pause_after(error)
            else:
                self._outage.over()
                pause_s = await self._until_there_is_news(changes)
            await happens_within(pause_s, self._stop)

    async def _until_there_is_news(self, changes: int) -> float:
        """A third of the time after which it would count as dead, more or less, so that fleets do not keep step."""
        due = time.monotonic() + self._silence_us / 3e6 * random.uniform(0.75, 1.25)
        while not self._stop.is_set() and self._changes() == changes:
            left_s = due - time.monotonic()
            if left_s <= SOONEST_S:
                return max(0.0, left_s)
            await happens_within(SOONEST_S, self._stop)
        return 0.0

    async def leave(self, shutdown: ShutdownDeadline, running: asyncio.Task[None]) -> None:
        """What is under way is waited for, so that the row does not come back."""
        self._stop.set()
        try:
            await asyncio.wait({running}, timeout=shutdown.left_s(LEAVE_S))
        finally:
            running.cancel()
        try:
            async with asyncio.timeout(shutdown.left_s(LEAVE_S)):
                await asyncio.wait({running})
                await self._registry.unregister(self._worker_id)
        except Exception as error:  # noqa: BLE001  # its silence will tell
            log.info("the worker could not be unregistered", extra={"error_code": type(error).__name__})

    def presence(self, blocked: str | None = None) -> Presence:
        """`blocked`: what blocks the event loop, told by a thread beside it."""
        return Presence(
            worker_id=self._worker_id,
            facts=msgspec.structs.replace(self._facts(), **self._me, blocked=blocked),
            up_us=round((time.monotonic() - self._began) * 1e6),
            silence_us=self._silence_us,
        )


@asynccontextmanager
async def registered(registration: WorkerRegistration | None, shutdown: ShutdownDeadline) -> AsyncIterator[None]:
    """While a worker works. None: nobody keeps a registry."""
    if registration is None:
        yield
        return
    running = asyncio.get_running_loop().create_task(registration.run())
    try:
        yield
    finally:
        await registration.leave(shutdown, running)
