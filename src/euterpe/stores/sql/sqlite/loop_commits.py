"""Small programs on the event loop's own thread, while the writer thread has nothing to do.

To hand a single submit to another thread and back costs more than its statement. So it is committed right here, one
turn of the loop after it came, or with what comes in that turn: the claim of a worker that the submit woke. That is
committed at once, and answered at once: the job begins before whoever submitted it goes on.
The loop waits for the disk then, and for nothing else: never for another process's lock, never for a checkpoint. A disk
that was slow once is left to the writer thread for a while, and for as long as that finds it slow.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

from euterpe.stores.sql.sqlite.switch_interval import short_switch_interval
from euterpe.stores.sql.sqlite.tickets import ConnectionSlot, Ticket, Tickets, resolve

SLOW_S: Final = 0.05
"""A loop that stands still for so long is noticed by whoever it serves."""
ON_THREAD_S: Final = 1.0
"""How long commits are the writer thread's after one that was slow."""


class LoopCommits:
    """For the tickets of one event loop. `commit` runs a group in a session and says whether it could begin at once."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        slot: ConnectionSlot,
        tickets: Tickets,
        commit: Callable[[ConnectionSlot, list[Ticket]], bool],
    ) -> None:
        self._loop = loop
        self._slot = slot
        self._tickets = tickets
        self._commit = commit
        self._group: list[Ticket] = []
        self._slow_until = 0.0
        self._handed: Ticket | None = None
        """The last of this loop that was left to the writer thread."""

    def take(self, ticket: Ticket) -> bool:
        """Whether it need not be given to the writer thread; if it was, because of others that wait here, they were
        too, and before it."""
        if ticket.loop is not self._loop:
            return False
        if self._group:
            self._group.append(ticket)
            if ticket.is_small:
                self._run(last=ticket)
            else:
                self.hand_over()
            return True
        if not ticket.is_small or time.monotonic() < self._slow_until or self._is_writer_busy():
            self._handed = ticket
            return False
        self._group.append(ticket)
        self._loop.call_soon(self._run)
        return True

    def hand_over(self) -> None:
        """What waits here goes to the writer thread."""
        group, self._group = self._group, []
        for ticket in group:
            self._tickets.put(ticket)
            self._handed = ticket

    def took(self, seconds: float) -> None:
        """What a commit of small programs took, on whichever thread."""
        if seconds > SLOW_S:
            self._slow_until = time.monotonic() + ON_THREAD_S

    def _is_writer_busy(self) -> bool:
        """What was asked before comes before. The thread may have it in its hands, and not have begun yet."""
        if self._handed is not None and self._handed.future.done():
            self._handed = None
        return self._handed is not None or self._slot.lock.locked() or not self._tickets.empty()

    def _run(self, last: Ticket | None = None) -> None:
        """`last` is answered first."""
        if not self._group:
            return  # Committed or handed over meanwhile.
        if not self._slot.lock.acquire(blocking=False):
            self.hand_over()
            return
        group, begun = self._group, time.monotonic()
        try:
            with short_switch_interval:
                is_done = self._commit(self._slot, group)
        except BaseException:
            self._group = []
            resolve(group)
            raise
        finally:
            self._slot.lock.release()
        if not is_done:
            self.hand_over()
            return
        self._group = []
        self.took(time.monotonic() - begun)
        if last is None:
            resolve(group)
            return
        resolve([last])
        self._loop.call_soon(resolve, [ticket for ticket in group if ticket is not last])
