"""Programs that wait for SQLite's writer thread, and how their answers find the way back to their loops."""

from __future__ import annotations

import asyncio
import itertools
import queue
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from euterpe.stores.sql.program import MakeProgram
from euterpe.stores.sql.sqlite.library import Session


@dataclass(slots=True)
class ConnectionSlot:
    """A thread's session, or none yet. Whoever has the lock may use it, or close it."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    session: Session | None = None

    def close(self) -> None:
        session, self.session = self.session, None
        if session is not None:
            with suppress(*session.library.failures):  # One that broke may not even close.
                session.close()


@dataclass(slots=True)
class Ticket:
    """A program that waits for the writer, and where its answer goes."""

    make: MakeProgram[Any]
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]
    deadline: float
    """Until when it waits for other writers."""
    is_small: bool = False
    """A few rows: it may be committed on the event loop's own thread."""
    answer: Any = None
    error: BaseException | None = None


@dataclass(slots=True)
class StopTicket:
    """Ends the writer."""


Tickets = queue.SimpleQueue[Ticket | StopTicket]


def deliver_answers(group: list[Ticket]) -> None:
    """Resolve the futures on their loops, one wake-up a loop."""
    for loop, tickets in itertools.groupby(group, key=lambda ticket: ticket.loop):
        answered = list(tickets)
        try:
            loop.call_soon_threadsafe(resolve, answered)
        except RuntimeError:
            continue  # The loop was closed meanwhile: nobody waits for these answers any more.


def resolve(tickets: list[Ticket]) -> None:
    """On the loop of these tickets."""
    for ticket in tickets:
        if ticket.future.done():
            continue
        if ticket.error is not None:
            ticket.future.set_exception(ticket.error)
        else:
            ticket.future.set_result(ticket.answer)
