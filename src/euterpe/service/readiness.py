"""A role and its database often start together: the role waits a while for a server that is not ready yet."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Final

from euterpe.backends.rights import check_rights
from euterpe.model.errors import ServerNotReady
from euterpe.ports import Store
from euterpe.queue.queue import Queue
from euterpe.runtime.outage import Outage
from euterpe.runtime.wait import happens_within

log: Final = logging.getLogger("euterpe.system")
PAUSES_S: Final = (0.1, 1.0)
"""Between two tries: the first one and the longest."""


async def until_ready(queue: Queue, patience_s: float, stop: asyncio.Event) -> bool:
    """Open the queue. False: told to stop meanwhile. Raises what is wrong when patience ends, and at once what waiting
    does not mend: a wrong password, a missing database, a schema of another release."""
    began = time.monotonic()
    pause_s, longest_s = PAUSES_S
    waiting = False
    while True:
        try:
            await queue.__aenter__()
        except ServerNotReady as error:
            if time.monotonic() - began + pause_s > patience_s:
                raise
            if not waiting:
                code = error.code or type(error.__cause__).__name__
                log.warning("database unavailable, retrying for %g s", patience_s, extra={"error_code": code})
                waiting = True
        else:
            if waiting:
                log.warning("database available again: starting after %.1f s", time.monotonic() - began)
            return True
        if await happens_within(pause_s, stop):
            return False
        pause_s = min(pause_s * 1.5, longest_s)


async def until_rights_are_known(store: Store, stop: asyncio.Event) -> bool:
    """False: told to stop meanwhile. A database that has answered and goes away during the start is waited for, however
    long that takes, as it would be a moment later. Raises SchemaMismatch when rights are lacking."""
    outage = Outage(log, "the start")
    while (error := await check_rights(store)) is not None:
        if await happens_within(outage.pause_after(error), stop):
            return False
    outage.over()
    return True
