"""Looks for cancel requests as soon as it is woken, without waiting for the next heartbeat.

Whoever cancels a running job announces it; a worker then looks at the leases of what it runs, once for all that was
announced meanwhile. Losing the announcement costs the time to the next heartbeat.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from euterpe.model.errors import EuterpeError
from euterpe.model.job import Lease
from euterpe.ports import CANCEL_CHANNEL, Claims, Wakeups
from euterpe.worker.heartbeat.keeper import Reports
from euterpe.worker.heartbeat.renew import LeaseChanges, name_of

PAUSE_S: Final = 0.25
"""Between two looks. On a SQLite file any commit of another process may be a cancel; four reads a second are cheap."""


class CancelWatch:
    """Looks when it is woken. Lives on the worker's loop."""

    def __init__(self, claims: Claims, running: Callable[[], Sequence[Lease]], reports: Reports) -> None:
        self._claims = claims
        self._running = running
        self._reports = reports
        self._loop = asyncio.get_running_loop()
        self._checked_at = -PAUSE_S
        self._timer: asyncio.TimerHandle | None = None
        self._check: asyncio.Task[None] | None = None
        self._unsubscribe: Callable[[], None] | None = None

    def begin(self, wakeups: Wakeups) -> None:
        self._unsubscribe = wakeups.subscribe(self.wake, [CANCEL_CHANNEL])

    def end(self) -> None:
        if self._unsubscribe is not None:
            self._unsubscribe()
        if self._timer is not None:
            self._timer.cancel()
        if self._check is not None:
            self._check.cancel()

    def wake(self) -> None:
        """Look soon. What is announced while a look is under way is looked for by the next one."""
        if self._timer is None:
            self._timer = self._loop.call_at(max(self._loop.time(), self._checked_at + PAUSE_S), self._begin_check)

    def _begin_check(self) -> None:
        self._timer = None
        self._checked_at = self._loop.time()
        if self._check is not None and not self._check.done():
            self.wake()
        elif leases := self._running():
            self._check = self._loop.create_task(self._check_leases(leases))

    async def _check_leases(self, leases: Sequence[Lease]) -> None:
        try:
            replies = await self._claims.check_leases(leases)
        except EuterpeError:
            return  # The heartbeats will tell.
        lost = [name_of(reply.lease) for reply in replies if not reply.alive]
        cancelled = [name_of(reply.lease) for reply in replies if reply.alive and reply.cancel_requested]
        self._reports.pass_on(LeaseChanges(lost, cancelled))
