"""Programs that wait for SQLite's writer thread, and how their answers find the way back to their loops."""

from __future__ import annotations

import asyncio
import itertools
import queue
from dataclasses import dataclass
from typing import Any

from euterpe.stores.sql.program import MakeProgram


@dataclass(slots=True)
class Ticket:
    """A program that waits for the writer, and where its answer goes."""

    make: MakeProgram[Any]
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]
    deadline: float
    """Until when it waits for other writers."""
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
            loop.call_soon_threadsafe(_resolve, answered)
        except RuntimeError:
            continue  # The loop was closed meanwhile: nobody waits for these answers any more.


def _resolve(tickets: list[Ticket]) -> None:
    for ticket in tickets:
        if ticket.future.done():
            continue
        if ticket.error is not None:
            ticket.future.set_exception(ticket.error)
        else:
            ticket.future.set_result(ticket.answer)
